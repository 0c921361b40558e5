from types import SimpleNamespace

import pytest
from mmengine.runner import EpochBasedTrainLoop

from mmssprl.engine import training_progress
from mmssprl.engine.training_progress import TrainingProgress


@pytest.fixture
def runner():
    """A training of 4 epochs of 10 steps with 8 images, after its first epoch, on 2 processes."""
    loop = EpochBasedTrainLoop.__new__(EpochBasedTrainLoop)
    loop.dataloader = range(10)
    loop._max_epochs = 4
    loader = SimpleNamespace(batch_size=8)
    return SimpleNamespace(
        iter=10, max_iters=40, world_size=2, train_loop=loop, train_dataloader=loader
    )


@pytest.fixture
def clock(monkeypatch):
    """The time that the progress sees."""
    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(training_progress, "time", SimpleNamespace(monotonic=lambda: now.s))
    return now


def test_the_rate_counts_the_images_of_all_processes(runner, clock):
    progress = TrainingProgress(runner)
    runner.iter, clock.s = 15, 102.0  # 5 steps of 16 images in 2 s; 25 are left
    assert progress() == "epoch 1.50/4  40 images/s  10 s left,"


def test_the_rate_is_that_of_the_last_calls(runner, clock):
    progress = TrainingProgress(runner)
    for _ in range(training_progress._WINDOW):  # a slow start
        clock.s += 10
        progress()
    for _ in range(training_progress._WINDOW):
        clock.s += 1
        runner.iter += 1
        progress()
    assert "16 images/s" in progress()


def test_a_training_that_stands_has_no_rate(runner, clock):
    progress = TrainingProgress(runner)
    clock.s += 5
    assert progress() == "epoch 1.00/4,"


def test_other_loops_count_steps(runner, clock):
    runner.train_loop = object()
    runner.train_dataloader.batch_size = None
    progress = TrainingProgress(runner)
    runner.iter, clock.s = 14, 101.0
    assert progress() == "step 14 of 40  4.00 steps/s  6 s left,"
