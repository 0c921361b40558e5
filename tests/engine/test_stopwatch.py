import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from mmssprl.engine.stopwatch import LoadedSteps, PretrainSteps


class Time:
    """A clock that a test moves."""

    ns = 0

    def now(self):
        return self.ns


def train(watch, loader, step, model=None):
    """Train as mmengine's loop does: each batch of its loader is a step."""
    loop = SimpleNamespace(batches=loader, stop_training=False)
    watch.before_train(SimpleNamespace(train_loop=loop, model=model))
    for batch in loop.batches:
        step(batch)
    assert loop.stop_training


@pytest.mark.parametrize(
    ("most", "max_seconds", "timed"),
    [(5, math.inf, 5), (5, 2.5, 3), (5, 0.0, 2)],
)
def test_steps_are_timed_after_the_first(most, max_seconds, timed):
    time = Time()
    seconds = iter([9, 1, 1, 1, 1, 1])  # the first one compiles

    def step(batch):
        time.ns += next(seconds) * 10**9

    watch = LoadedSteps(least=2, most=most, max_seconds=max_seconds, now=time.now)
    train(watch, [0, 1], step)  # an epoch is shorter than the measurement
    assert watch.seconds == [1] * timed


def test_operations_are_counted_in_a_separate_step():
    layer = nn.Linear(3, 5)
    watch = LoadedSteps(least=1, most=1, max_seconds=1, counts_flops=True)
    train(watch, [torch.ones(4, 3)], lambda rows: layer(rows).sum().backward())
    assert watch.flops == 2 * (2 * 4 * 3 * 5)  # forward, and the weights' gradient
    assert len(watch.seconds) == 1


class TestPretrainSteps:
    """A step takes 1 s plus 0.5 s per image."""

    @pytest.fixture
    def timed(self, on_cpu, monkeypatch):
        def run(batch_size, *, num_images=640, **options):
            time, sizes = Time(), []

            def step(batch):
                sizes.append(len(batch))
                time.ns += int((1 + 0.5 * len(batch)) * 1e9)

            options = {"least": 3, "most": 10, "max_seconds": 8.0, "num_steps": 1000, **options}
            watch = PretrainSteps(unit=2, now=time.now, **options)
            model = SimpleNamespace(fill_queues=lambda: None)
            loader = DataLoader(range(num_images), batch_size=batch_size, drop_last=True)
            train(watch, loader, step, model)
            return watch, sizes

        return run

    def test_a_long_step_has_few_images(self, timed):
        watch, sizes = timed(64)
        # Two images take 2 s, so 4 of them are expected in 4 s.
        assert sizes == [2, 2, 4, 4, 4, 4]
        assert (watch.num_timed, watch.batch_size) == (4, 64)
        assert watch.step_s == pytest.approx(3.0 * 64 / 4)

    def test_a_short_step_has_all(self, timed):
        assert timed(4)[1] == [2, 2, 4, 4, 4, 4]
        assert timed(2)[1] == [2] * 5  # 2 s each

    def test_they_take_a_tenth_of_the_run(self, timed):
        # 4 steps per epoch, 28 in all: one is timed after a first one.
        assert timed(2, num_images=8, num_steps=28)[1] == [2, 2]
        assert timed(2, num_images=8, num_steps=40)[1] == [2] * 4
        assert timed(64, limit_s=3.0)[1] == [2, 2, 2, 2]
