from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from mmssprl.engine.stopwatch import LoadedSteps, PretrainSteps


def train(watch, loader, step, model=None):
    """Train as mmengine's loop does: each batch of its loader is a step."""
    loop = SimpleNamespace(batches=loader, stop_training=False)
    watch.before_train(SimpleNamespace(train_loop=loop, model=model))
    for batch in loop.batches:
        step(batch)
    assert loop.stop_training


def test_operations_are_counted_in_a_separate_step():
    layer = nn.Linear(3, 5)
    watch = LoadedSteps(least=1, most=1, max_seconds=1, counts_flops=True)
    train(watch, [torch.ones(4, 3)], lambda rows: layer(rows).sum().backward())
    assert watch.flops == 2 * (2 * 4 * 3 * 5)  # forward, and the weights' gradient
    assert len(watch.seconds) == 1


@pytest.mark.parametrize(
    ("batch_size", "options", "sizes"),
    [
        # Two images take 2 s, so 4 of them are expected in 4 s.
        (64, {}, [2, 2, 4, 4, 4, 4]),
        (64, {"limit_s": 3.0}, [2, 2, 2, 2]),
        (4, {}, [2, 2, 4, 4, 4, 4]),
        (2, {}, [2] * 5),
        # A tenth of all steps, after a first one.
        (2, {"num_steps": 28}, [2, 2]),
        (2, {"num_steps": 40}, [2] * 4),
    ],
)
def test_a_pretraining_takes_few_images_in_long_steps(batch_size, options, sizes, on_cpu):
    """A step takes 1 s plus 0.5 s per image; an epoch of two images a step has 4 of them."""
    found = []

    def now():
        return sum(10**9 + 5 * 10**8 * num for num in found)

    options = {"least": 3, "most": 10, "max_seconds": 8.0, "num_steps": 1000, **options}
    watch = PretrainSteps(unit=2, now=now, **options)
    images = range(8 if batch_size == 2 else 640)
    loader = DataLoader(images, batch_size=batch_size, drop_last=True)
    train(
        watch,
        loader,
        lambda batch: found.append(len(batch)),
        SimpleNamespace(fill_queues=lambda: None),
    )
    assert found == sizes
    num = sizes[-1]
    assert (watch.num_timed, watch.batch_size) == (num, batch_size)
    assert watch.step_s == pytest.approx((1 + 0.5 * num) * batch_size / num)
