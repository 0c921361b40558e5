import pytest
import torch
from mmengine.hooks import Hook

from mmssprl.models.unwrap import unwrap
from mmssprl.registry import HOOKS
from tools.dev.speed import models, step_rows
from tools.dev.speed.models import build_model
from tools.dev.speed.runs import SyncCounter, collectives_per_step, run_config, syncs_per_step


def waits():
    x = torch.arange(4.0)
    above_one = x > 1

    def backward():
        doubled = 2 * x.clone().requires_grad_()
        doubled.register_hook(lambda grad: grad * grad.sum().item())
        doubled.sum().backward()

    return {
        "item": x[0].item,
        "if": lambda: bool(x.sum() > 0),
        "nonzero": x.nonzero,
        "mask": lambda: x[above_one],
        "assign by mask": lambda: x.clone().__setitem__(above_one, torch.tensor(0.0)),
        "masked_select": lambda: x.masked_select(above_one),
        "equal": lambda: torch.equal(x, x + 1),
        **{"unique": x.unique, "tolist": x.tolist, "numpy": x.numpy, "cpu": x.cpu},
        "backward": backward,
    }


@pytest.mark.parametrize("name", waits())
def test_sync_counter_sees_each_wait_once(name):
    counter = SyncCounter()
    with counter, counter.patched():
        waits()[name]()
    assert len(counter.take()) == 1
    assert not counter.take()


@HOOKS.register_module(force=True)
class StateRecorder(Hook):
    """Writes down, before each step, whether it is frozen and which queues it uses."""

    states: list = []  # noqa: RUF012

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        head = unwrap(runner.model).head
        used = tuple(queue.is_full and head.uses_queues for queue in head.queues)
        self.states.append((head.is_frozen, used))


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_steps_between_logs_never_wait(variant, monkeypatch):
    monkeypatch.setattr(StateRecorder, "states", [])
    cfg = step_rows.sync_configs()[variant]
    assert cfg.model.head.variant == variant
    cfg.custom_hooks.append({"type": "StateRecorder"})
    steps = syncs_per_step(cfg)
    assert [step.number for step in steps if not step.may_read] == [1, 3, 0, 1, 3, 0, 1, 3]
    pairs = zip(StateRecorder.states, steps, strict=True)
    assert [state for state, step in pairs if not step.may_read] == [
        *[(True, (False, False, False))] * 2,
        *[(False, (True, False, True))] * 3,
        *[(False, (True, True, True))] * 3,
    ]
    assert [step for step in steps if step.found and not step.may_read] == []  # C9
    # All values of a line are read at once; the first step compares batch sizes, too.
    assert [len(step.found) for step in steps if step.may_read] == [2] + [1] * 6


@pytest.mark.dist
def test_collectives_of_a_step(on_cpu):
    cfg = run_config(28, train_dataloader__batch_size=1)
    found = collectives_per_step(cfg)
    sinkhorn = [c for c in found if c.is_sinkhorn]
    # One per iteration: float32 sums of both views over 300, 150 and 150 prototypes.
    assert [c.num_bytes for c in sinkhorn] == [4 * 2 * (300 + 150 + 150)] * 3  # C10
    others = [c for c in found if not c.is_sinkhorn]
    assert {c.name for c in others} == {"allreduce_"}
    sizes = [parameter.numel() for parameter in build_model(cfg).parameters()]
    assert sum(c.num_bytes for c in others) == 4 * sum(sizes)


def test_equivalent_crops_of_the_shipped_model():
    assert models.equivalent_crops(28) == pytest.approx(7.41, abs=0.01)
