import math
from itertools import product

import pytest
import torch
from helpers.models.small_ssprl import BACKBONE, LAYOUT, model_cfg, packed_batch
from mmengine.optim import AmpOptimWrapper

from mmssprl.engine import LARC
from mmssprl.functional import measure_views
from mmssprl.models import LossTerm
from mmssprl.registry import MODELS

VIEWS = {"effective_rank", "alignment", "alignment_others"}


def build(**head):
    torch.manual_seed(0)
    return MODELS.build(model_cfg({**BACKBONE}, 8, **head))


@torch.no_grad()
def test_pooled_features_are_ordered_by_scale():
    model = build().eval()
    inputs = model.data_preprocessor(packed_batch(LAYOUT))["inputs"]
    scales = model.extract_feat(inputs)
    assert [tuple(x.shape) for x in scales] == [(3, 1, 2, 8), (2, 4, 2, 8)]
    # Crop 3 of group 1 is patch 2 of view 0 (crop 0 is the small view).
    for crop, found in ((3, scales[1][0, 2]), (0, scales[0][2, 0])):
        alone = model.backbone(inputs[1][crop])[-1].mean(dim=(2, 3))
        torch.testing.assert_close(found, alone)


def test_health_is_of_what_is_configured():
    assert build().health() == {}
    assert build(freeze_iters=1).health() == {"frozen": 1}
    assert build(queue_length=4).health() == {"queue_fill": 0, "queues_in_use": 0}


@pytest.fixture
def step():
    """A model, and augmented views for a step of it."""
    model = build()
    packed = packed_batch(LAYOUT, batch=4)
    return model, model.data_preprocessor(packed, training=True)["inputs"]


def test_the_image_views_are_measured(step):
    model, inputs = step
    assert model.examine() == {}
    model.eval()
    with torch.no_grad():
        z = model.neck(model.extract_feat(inputs))[0][:2].flatten(1, 2)  # (2, B, D)
        model.loss(inputs)
    expected = measure_views(*z)
    assert expected.keys() == VIEWS
    torch.testing.assert_close(model.examine(), expected)  # no assignments outside of training


def test_the_assignments_of_each_scale_are_measured(step):
    model, inputs = step
    model.loss(inputs)
    kinds = ("prototypes_in_use", "code_perplexity", "prediction_perplexity")
    of_scales = {f"{kind}_s{s}" for kind, s in product(kinds, (0, 1))}
    found = model.examine()
    assert found.keys() == VIEWS | of_scales
    assert all(0 < found[name].item() <= 1 for name in of_scales)


def test_prototypes_in_use_are_those_of_an_epoch():
    head = build().head
    head.set_epoch_length(2)
    shares = []
    for step, nearest in enumerate((0, 1, 1, 2)):
        # Prototype 5 is near only to small views, which get no codes.
        scores = torch.eye(6)[[nearest, nearest, 5], None, None].expand(3, 1, 4, 6)  # (V, M_0, B)
        head.assignments.note([scores], [torch.full((2, 4, 6), 1 / 6)], step)
        shares.append(head.examine()["prototypes_in_use_s0"].item() * 6)
    assert shares == pytest.approx([1, 2, 1, 2])
    assert head.assignments.examine(temperature=0.1)["prototypes_in_use_s0"].item() == 0.5


def test_relative_losses():
    term = LossTerm("L", 0, weight=0.25, num_classes=10)
    assert term.chance == math.log(10)
    assert term.relative(0.25 * math.log(10) / 2) == pytest.approx(0.5)
    # Predictions orthogonal to their targets: twice (2 - 2 * 0).
    assert LossTerm("L", 0, weight=1.0, unrelated=4.0).relative(1.0) == 0.25
    assert LossTerm("L", 0, weight=1.0).relative(1.0) is None


def test_steps_are_measured_with_full_queues_in_use():
    model = build(queue_length=4, patch_queue_length=[6], queue_start_epoch=3)
    model.on_epoch_length(5)
    random = torch.get_rng_state()
    model.fill_queues()
    assert torch.equal(torch.get_rng_state(), random)
    assert model.health() == {"queue_fill": 1, "queues_in_use": 1}
    for queue in model.head.queues:
        torch.testing.assert_close(queue.features.norm(dim=-1), torch.ones(2, queue.length))


def test_the_size_of_a_checkpoint_includes_the_queues_of_all_ranks(monkeypatch):
    model = build(queue_length=7, patch_queue_length=[5])
    monkeypatch.setattr("mmengine.dist.all_gather", lambda features: [features] * 3)
    for num_ranks in (1, 3):
        monkeypatch.setattr("mmengine.dist.get_world_size", lambda count=num_ranks: count)
        expected = model.checkpoint_bytes(num_ranks)
        model.before_checkpoint()
        assert sum(value.nbytes for value in model.state_dict().values()) == expected
        model.after_checkpoint()
    # ranks x views x rows x D x bytes
    assert expected - model.checkpoint_bytes(1) == 3 * 2 * (7 + 5) * 8 * 4


def test_scores_are_float32_in_mixed_precision(monkeypatch, on_cpu):
    # The wrapper requires a GPU, but autocast works on a CPU.
    module = "mmengine.optim.optimizer.amp_optimizer_wrapper.is_cuda_available"
    monkeypatch.setattr(module, lambda: True)
    model = build()
    options = {"dtype": "bfloat16", "loss_scale": {"enabled": False}}
    wrapper = AmpOptimWrapper(optimizer=LARC(model.parameters(), lr=0.6), **options)
    neck = [layer for layer in model.neck.modules() if isinstance(layer, torch.nn.Linear)]
    scorers = [*model.head.prototypes, *model.head.correlation]
    seen = {}
    for layer in (model.backbone.conv1, *neck, *scorers):
        layer.register_forward_hook(lambda layer, _, output: seen.update({layer: output.dtype}))
    log = model.train_step(packed_batch(LAYOUT), wrapper)

    assert {seen.pop(scorer) for scorer in scorers} == {torch.float32}
    assert set(seen.values()) == {torch.bfloat16}
    assert all(value.dtype == torch.float32 for value in log.values())
