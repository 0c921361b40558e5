import re
import time
from types import SimpleNamespace

import pytest
from helpers.engine.toy_run import ToyData, write_config
from mmengine.runner import EpochBasedTrainLoop

from mmssprl.console import live_line
from mmssprl.engine import training_progress
from mmssprl.engine.launch import launch, prepare_train_config
from mmssprl.engine.training_progress import TrainingProgress


@pytest.fixture
def runner():
    """A training of 4 epochs of 10 steps with 8 images, resumed after an epoch, on 2 processes."""
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


@pytest.fixture
def progress(runner, clock):
    """The progress of a training that is about to begin."""
    progress = TrainingProgress()
    assert progress.text() == "starting the training"
    progress.before_train(runner)
    return progress


def test_the_rate_counts_the_new_images_of_all_processes(progress, runner, clock):
    runner.iter, clock.s = 15, 102.0  # 5 steps of 16 images in 2 s; 25 are left
    assert progress.text() == "epoch 1.50/4  40 images/s  10 s left"


def test_the_rate_has_the_last_minute(progress, runner, clock):
    for _ in range(20):  # a slow start of 200 s
        clock.s += 10
        progress.text()
    for _ in range(61):
        clock.s += 1
        runner.iter += 1
        progress.text()
    assert "16 images/s" in progress.text()


def test_rare_calls_have_the_rate_since_the_call_before(progress, runner, clock):
    for _ in range(3):
        clock.s += 300
        runner.iter += 3
        shown = progress.text()
    assert "0.2 images/s" in shown


def test_a_training_that_stands_has_no_rate(progress, clock):
    clock.s += 5
    assert progress.text() == "epoch 1.00/4"


def test_other_loops_count_steps(progress, runner, clock):
    runner.train_loop = object()
    runner.train_dataloader.batch_size = None
    runner.iter, clock.s = 14, 101.0
    assert progress.text() == "step 14 of 40  4.00 steps/s  6 s left"


def test_a_training_shows_its_progress(tmp_path, monkeypatch, capsys):
    """Without a terminal there is a line as soon as one is due."""
    monkeypatch.setattr(live_line, "_LEAST_S", 0.01)
    monkeypatch.setattr(live_line, "rarer_s", lambda *_: 0.0)
    monkeypatch.setattr(ToyData, "__getitem__", slow(ToyData.__getitem__))
    config = write_config(tmp_path)
    launch(prepare_train_config(config, work_dir=tmp_path / "run"), "train")
    shown = capsys.readouterr().err
    assert re.search(r"^epoch 0\.[257]\d?/1  .* images/s  \d+ s left, \d+ s$", shown, re.MULTILINE)


def slow(function):
    """Return a function that takes 20 ms longer."""

    def slowed(*given):
        time.sleep(0.02)
        return function(*given)

    return slowed
