"""Exact counts of a training step, and the gates C5, C6, C9 and C10 that they decide."""

import counts
import pytest
import step_counts
import step_gates
import swav_step
import torch
from larc_check import larc_errors
from mmengine.hooks import Hook
from operator_counts import OperatorCounter, operators_outside_backbone
from step_counts import SyncCounter, collectives_per_step, run_config, run_steps
from torch import nn

from mmssprl.engine.unwrap import unwrap
from mmssprl.models import SinkhornHead
from mmssprl.registry import HOOKS

# Counted today; lower them when a change needs fewer. None may depend on the batch.
MOST_OPERATORS = {"heads": 323, "sinkhorn": 96, "optimizer": 25}
MOST_AUGMENTING = {28: 658, 34: 877}  # 219 for each backbone pass, and 1


@HOOKS.register_module(force=True)
class StateRecorder(Hook):
    """Writes down, before each step, whether it is frozen and which queues it uses."""

    states: list = []  # noqa: RUF012

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        head = unwrap(runner.model).head
        used = tuple(queue.is_full and head.uses_queues for queue in head.queues)
        self.states.append((head.is_frozen, used))


@pytest.mark.parametrize(
    ("num_crops", "tensors", "pixels"),
    [
        (28, 3, 2 * 224**2 + 8 * 112**2 + 18 * 96**2),
        (34, 4, 2 * 224**2 + 6 * 96**2 + 8 * 112**2 + 18 * 96**2),
    ],
)
def test_loader_sends_one_byte_per_value_and_one_tensor_per_pass(num_crops, tensors, pixels):
    found = counts.loader_counts(counts.shipped_config(num_crops).model.layout)
    assert found == {"tensors": tensors, "bytes": 3 * pixels, "float32_bytes": 12 * pixels}
    assert found["bytes"] / found["float32_bytes"] <= 0.26  # C5
    assert found["tensors"] <= 4  # C6


def test_parameters_of_the_shipped_model():
    backbone = 23_508_032  # torchvision's resnet50 without fc
    neck = 3 * (2048 * 2048 + 2048 + 2 * 2048 + 2048 * 128 + 128)
    head = (300 + 150 + 150) * 128 + 2 * 300 * 150
    assert counts.parameter_counts(counts.shipped_config()) == {
        "tensors": 161 + 3 * 6 + 5 - 2,
        "parameters": backbone + neck + head,
        "gradient_bytes": 4 * (backbone + neck + head),
    }


def test_flops_equal_the_layers_formula():
    cfg = run_config(28)
    conv = 0
    model = counts.build_model(cfg)

    def add(layer, inputs, output):
        nonlocal conv
        kernel = layer.in_channels * layer.kernel_size[0] * layer.kernel_size[1]
        passes = 2 if layer is model.backbone.conv1 else 3  # nobody needs the images' gradient
        conv += 2 * kernel * output.numel() * passes

    for layer in model.backbone.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(add)
    with torch.no_grad():
        for num_crops, px in ((2, 48), (8, 40), (18, 32)):
            model.backbone(torch.zeros(num_crops, 3, px, px))

    heads = 0
    for rows, prototypes in ((2, 300), (8, 150), (18, 150)):
        heads += 6 * rows * (64 * 2048 + 2048 * 128 + 128 * prototypes)
    heads += 2 * 6 * 2 * 150 * 300  # both levels' correlation learners, two views
    assert counts.flops_per_image(cfg) == {"conv": conv, "heads": heads}


@pytest.mark.parametrize("bfloat16", [False, True])
def test_activations_equal_those_of_a_real_pass(bfloat16):
    cfg = run_config(28)
    model = counts.build_model(cfg)
    model.head.eval()
    own = {t.data_ptr() for t in [*model.parameters(), *model.buffers()]}
    totals = []
    for batch in (2, 3):
        saved = []
        inputs = [torch.rand(n, batch, 3, px, px) for n, px in ((2, 48), (8, 40), (18, 32))]
        with (
            torch.autograd.graph.saved_tensors_hooks(lambda t, s=saved: s.append(t) or t, id),
            torch.autocast("cpu", torch.bfloat16, enabled=bfloat16),
        ):
            model(inputs, mode="loss")
        storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in saved}
        totals.append(sum(size for key, size in storages.items() if key not in own))
    assert counts.activation_bytes(cfg, bfloat16=bfloat16) == totals[1] - totals[0]


def test_activations_of_the_shipped_model():
    found = counts.activation_bytes(counts.shipped_config(), bfloat16=True)
    assert found == pytest.approx(318e6, rel=0.02)


def test_operator_counter_leaves_views_and_allocations_out():
    counter = OperatorCounter()
    a = torch.ones(3, 3, requires_grad=True)
    with counter:
        b = torch.empty(3, 3).copy_(a.detach()).view(9)[None].t()  # copy_
        loss = (a.view(9) * b.reshape(-1)).sum()  # mul, sum
        with counter.during("other"):
            loss.backward()  # ones_like, mul
    assert counter.counts == {"heads": 3, "other": 2}


@pytest.mark.parametrize("num_crops", [28, 34])
def test_operators_outside_the_backbone(num_crops):
    cfg = run_config(num_crops)
    found = operators_outside_backbone(cfg, batch_size=2)
    assert found.pop("all") == sum(found.values())
    most = {**MOST_OPERATORS, "augment": MOST_AUGMENTING[num_crops]}
    assert found.keys() == most.keys()
    for phase, number in found.items():
        assert 0 < number <= most[phase], (phase, number)
    larger = operators_outside_backbone(cfg, batch_size=5)
    assert {phase: larger[phase] for phase in found} == found


def waits():
    x = torch.arange(4.0)

    class ReadInBackward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * grad.sum().item()

    def backward():
        ReadInBackward.apply(x.clone().requires_grad_()).sum().backward()

    return {
        "item": lambda: x[0].item(),
        "float": lambda: float(x.sum()),
        "if": lambda: bool(x.sum() > 0),
        "nonzero": lambda: x.nonzero(),
        "mask": lambda: x[x > 1],
        "assign by mask": lambda: x.clone().__setitem__(x > 1, torch.tensor(0.0)),
        "masked_select": lambda: x.masked_select(x > 1),
        "unique": lambda: x.unique(),
        "equal": lambda: torch.equal(x, x + 1),
        "tolist": lambda: x.tolist(),
        "numpy": lambda: x.numpy(),
        "cpu": lambda: x.cpu(),
        "backward": backward,
    }


@pytest.mark.parametrize("name", waits())
def test_sync_counter_sees_each_wait_once(name):
    counter = SyncCounter()
    with counter, counter.patched():
        waits()[name]()
    assert counter.take().total() == 1
    assert not counter.take()


def test_sync_counter_lets_work_without_waits_pass():
    x, order = torch.arange(6.0).view(2, 3), torch.tensor([1, 0])
    counter = SyncCounter()
    with counter, counter.patched():
        torch.where(x > 1, x, 0.0).masked_fill_(x > 2, 1.0)
        x[order].sort(dim=1)
        x[:, 1] = 3.0
        x.to("cpu", non_blocking=True)
    assert counter.take().total() == 0


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_steps_between_logs_never_wait(variant, monkeypatch):
    monkeypatch.setattr(StateRecorder, "states", [])
    cfg = step_gates.sync_configs()[variant]
    assert cfg.model.head.variant == variant
    cfg.custom_hooks.append({"type": "StateRecorder"})
    steps = run_steps(cfg, SyncCounter())
    assert [step.index for step in steps if not step.may_read] == [1, 3, 0, 1, 3, 0, 1, 3]
    between = [
        state for state, step in zip(StateRecorder.states, steps, strict=True) if not step.may_read
    ]
    assert between == [
        *[(True, (False, False, False))] * 2,
        *[(False, (True, False, True))] * 3,
        *[(False, (True, True, True))] * 3,
    ]
    waiting = {(s.epoch, s.index): s.counted for s in steps if s.counted and not s.may_read}
    assert waiting == {}  # C9


def test_a_read_in_the_step_is_found(monkeypatch):
    loss = SinkhornHead.loss

    def reading_loss(self, embeddings):
        losses = loss(self, embeddings)
        self.last_loss = float(losses["loss_pyramid_s0"].detach())
        return losses

    monkeypatch.setattr(SinkhornHead, "loss", reading_loss)
    steps = run_steps(run_config(28), SyncCounter())
    waits = [step.counted for step in steps if not step.may_read]
    assert waits == [{"_local_scalar_dense": 1}] * 2


@pytest.mark.dist
def test_collectives_of_a_step():
    cfg = run_config(28, train_dataloader__batch_size=1)
    found = collectives_per_step(cfg)
    sinkhorn = [c for c in found if c.sinkhorn]
    # One per iteration: float32 sums of both views over 300, 150 and 150 prototypes.
    assert [c.num_bytes for c in sinkhorn] == [4 * 2 * (300 + 150 + 150)] * 3
    assert len(sinkhorn) <= 4  # C10
    others = [c for c in found if not c.sinkhorn]
    assert {c.name for c in others} == {"allreduce_"}
    assert sum(c.num_bytes for c in others) == counts.parameter_counts(cfg)["gradient_bytes"]


def test_larc_check_finds_a_wrong_formula(monkeypatch):
    cfg = run_config(28)
    settings = {"weight_decay": 1e-2, "trust": 2e-2}
    assert max(larc_errors(cfg, **settings).values()) <= 1e-6  # C12
    monkeypatch.setattr("larc_check._EPS", 1e-3)
    assert max(larc_errors(cfg, **settings).values()) > 1e-2


def small_swav():
    cfg = swav_step.image_only_config()
    cfg.model.backbone.update(depth=18, stem_channels=8, base_channels=8)
    cfg.model.neck.in_channels = 64
    cfg.model.layout.update(image_px=48, small_px=32)
    ours = counts.build_model(cfg)
    return cfg, ours, counts.random_batch(ours.layout, 3)


def test_swav_gets_our_crops_and_computes_our_loss():
    cfg, ours, batch = small_swav()
    assert [tuple(c.shape) for c in swav_step.swav_batch(batch)["inputs"]] == [
        *[(3, 3, 48, 48)] * 2,
        *[(3, 3, 32, 32)] * 6,
    ]
    loss, loss_of_swav = swav_step.check_same(ours, swav_step.build_swav(cfg, ours), batch)
    assert loss == pytest.approx(loss_of_swav, rel=1e-4)
    assert loss > 1


def test_swav_of_other_settings_or_crops_is_refused():
    cfg, ours, batch = small_swav()
    cfg.model.head.temperature = 0.2
    with pytest.raises(RuntimeError, match="must compute the same loss, but ours is"):
        swav_step.check_same(ours, swav_step.build_swav(cfg, ours), batch)
    swav = swav_step.build_swav(cfg, ours)
    swav.data_preprocessor.mean += 1
    with pytest.raises(RuntimeError, match="must get the same crops"):
        swav_step.check_same(ours, swav, batch)


def test_small_run_has_the_groups_and_slots_of_the_shipped_layouts():
    for num_crops in (28, 34):
        shipped = counts.build_model(counts.shipped_config(num_crops)).layout.groups
        small = counts.build_model(run_config(num_crops)).layout.groups
        assert [group.slots for group in small] == [group.slots for group in shipped]
    assert step_counts.NUM_RANKS == 2
