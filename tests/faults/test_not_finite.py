import logging
import time
from types import SimpleNamespace

import pytest
import torch
from helpers.engine.pretrain_runner import make_runner
from helpers.engine.toy_run import ToyMetric
from helpers.models.two_ranks import on_two_ranks
from helpers.saving.stopped_runs import BadGradient
from helpers.saving.toy_checkpoint import BEST, train_toy
from mmengine.hooks import Hook
from mmengine.logging import MessageHub
from mmengine.optim import OptimWrapper
from torch import distributed as dist
from torch import nn

from mmssprl.engine.runner import CPUDistributedDataParallel
from mmssprl.saving.checkpoint_checks import NotFiniteError, require_finite_state
from mmssprl.saving.save_and_stop_hook import SaveAndStopHook

pytestmark = pytest.mark.fault


def saved(folder):
    return sorted(path.name for path in (folder / "run").glob("*.pth"))


class BadMomentum(Hook):
    """Sets all of the optimizer's momentum to a value after a step."""

    def __init__(self, step, value=torch.inf):
        self.step = step
        self.value = value

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        if runner.iter + 1 == self.step:
            for state in runner.optim_wrapper.optimizer.state.values():
                state["momentum_buffer"].fill_(self.value)


class TestSaving:
    def test_a_bad_gradient_in_the_step_of_a_save(self, tmp_path):
        checkpoint = {"type": "CheckpointHook", "max_keep_ckpts": 1, "interval": 1}
        keep = {"default_hooks.checkpoint": checkpoint}
        with pytest.raises(NotFiniteError, match=r"step 8 linear.weight.*resume.*\.$") as caught:
            train_toy(tmp_path, BadGradient(8), options=keep)
        assert "\n" not in str(caught.value)
        assert saved(tmp_path) == ["epoch_1.pth"]
        assert (tmp_path / "run/last_checkpoint").read_text().endswith("epoch_1.pth")
        train_toy(tmp_path, options=keep, resume="auto")
        assert saved(tmp_path) == ["epoch_2.pth"]

    def test_the_optimizer_counts_too_but_large_numbers_do_not(self, tmp_path):
        with pytest.raises(NotFiniteError, match="4 .*momentum_buffer of linear.weight"):
            train_toy(tmp_path, BadMomentum(4), options=MOMENTUM)
        assert saved(tmp_path) == []
        train_toy(tmp_path, BadMomentum(4, value=1e30), options=MOMENTUM, epochs=1)
        assert saved(tmp_path) == ["epoch_1.pth"]

    def test_nothing_bad_is_exported(self, images, tmp_path):
        checkpoint = {"default_hooks.checkpoint.interval": -1}
        checkpoint["default_hooks.checkpoint.save_last"] = False
        runner = make_runner(images, tmp_path / "run", **checkpoint)
        runner.register_hook(BadGradient(4))
        with pytest.raises(NotFiniteError, match="4 backbone.conv1.weight"):
            runner.train()
        assert saved(tmp_path) == []

    def test_nothing_bad_is_the_best_one(self, tmp_path, monkeypatch):
        """A model with NaN has a score, too, and the first one is always the best."""
        monkeypatch.setattr(ToyMetric, "compute_metrics", lambda self, results: {"total": 0.0})
        with pytest.raises(NotFiniteError, match="after step 4 linear.weight"):
            train_toy(tmp_path, BadGradient(4), text=BEST.replace("interval=1", "interval=2"))
        assert saved(tmp_path) == []


MOMENTUM = {"optim_wrapper.optimizer": {"type": "SGD", "lr": 0.01, "momentum": 0.9}}


def steps_of_saves(runner, rank):
    """Return after which of ten steps a rank saves, if rank 0 asks for a save by the clock."""
    hook = SaveAndStopHook("1h")
    hook._group = dist.group.WORLD
    hook._saver = object()
    if rank == 0:
        hook._saved_at -= 3601
    steps = []

    def save(runner, saver):
        steps.append(runner.iter + 1)
        hook._saved_at = time.monotonic()

    hook._save = save
    for runner.iter in range(10):
        hook.after_train_iter(runner)
    return steps


class LossOf1(Hook):
    """Raises for a loss of rank 1."""

    def hand_over(self, runner):
        if dist.get_rank() == 1:
            raise NotFiniteError("the loss of rank 1")


def message_of(runner):
    with pytest.raises(NotFiniteError) as caught:
        require_finite_state(runner, 3)
    return str(caught.value)


def work(rank):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    runner = SimpleNamespace(
        model=CPUDistributedDataParallel(model, broadcast_buffers=False),
        optim_wrapper=OptimWrapper(optimizer),
        message_hub=MessageHub("ranks"),
        hooks=[],
        logger=logging.getLogger(),
        iter=0,
        max_iters=11,
    )
    images = torch.randn(4, 2, generator=torch.Generator().manual_seed(rank))
    runner.optim_wrapper.update_params((runner.model(images) - 1).square().sum())
    require_finite_state(runner, 0)
    runner.model.module[1].running_mean += torch.inf if rank == 1 else 0
    texts = [message_of(runner)]
    runner.hooks = [LossOf1()]
    texts.append(message_of(runner))
    return {"texts": texts, "saves": steps_of_saves(runner, rank)}


@pytest.mark.dist
def test_a_single_rank_stops_all(tmp_path, on_cpu):
    first, second = on_two_ranks(work, tmp_path)
    named = "after step 3 1.running_mean of rank 1 is not finite"
    for found in (first, second):
        assert named in found["texts"][0]
        assert found["saves"] == [2], "asked in the first step, answered in the second, and once"
    # A rank that raises its own error must not leave the others waiting.
    assert named in first["texts"][1]
    assert second["texts"][1] == "the loss of rank 1"
