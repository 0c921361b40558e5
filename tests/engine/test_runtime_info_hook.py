from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from helpers.engine.logs import read_log
from helpers.engine.pretrain_runner import make_runner
from helpers.saving.stopped_runs import BadGradient
from mmengine.hooks import Hook

STEPS = 5  # 10 images in batches of 2
TIMES = {"time", "data_time", "memory"}
HEALTH = {"embedding_spread", "frozen", "queue_fill", "queues_in_use"}
"""Scalars that the model adds in every step."""
MEASURES = {
    "effective_rank",
    "alignment",
    "alignment_others",
    "prototypes_in_use_s0",
    "prototypes_in_use_s1",
    "code_perplexity_s0",
    "code_perplexity_s1",
    "prediction_perplexity_s0",
    "prediction_perplexity_s1",
}
"""Scalars that it adds where a line is written."""


def train(images, work_dir, *hooks, interval=2, ours=True, **overrides):
    overrides |= {"default_hooks.logger.interval": interval, "train_dataloader.batch_size": 2}
    if ours:
        overrides["default_hooks.runtime_info"] = {"type": "PretrainRuntimeInfoHook"}
    runner = make_runner(images, work_dir, **overrides)
    for hook in hooks:
        runner.register_hook(hook)
    runner.train()
    return runner


def history(runner, name):
    return runner.message_hub.get_scalar(f"train/{name}").data[0]


def history_without_health(runner):
    return {
        name: buffer.data[0]
        for name, buffer in runner.message_hub.log_scalars.items()
        if name.removeprefix("train/") not in TIMES | HEALTH | MEASURES
    }


def without_health(line):
    """Names and values in their order, of a time only the name."""
    kept = [key for key in line if key not in HEALTH | MEASURES]
    return [(key, None if key in TIMES else line[key]) for key in kept]


def logged(runner):
    return [without_health(line) for line in read_log(runner.work_dir)]


@pytest.mark.parametrize("interval", [2, 50])
def test_all_losses_equal_those_that_mmengine_s_hook_records(images, tmp_path, interval):
    stock = train(images, tmp_path / "stock", interval=interval, ours=False)
    ours = train(images, tmp_path / "ours", interval=interval)
    assert len(logged(stock)) == 2 * max(1, STEPS // interval)
    assert logged(ours) == logged(stock)

    expected = history_without_health(stock)
    found = history_without_health(ours)
    assert found.keys() == expected.keys() >= {"train/loss", "train/lr"}
    for name, values in expected.items():
        assert len(values) == 2 * STEPS
        assert np.array_equal(found[name], values), name


@pytest.fixture(scope="module")
def examined(images, tmp_path_factory):
    """A run with a line at the end of each of two epochs, and a checkpoint every 3 steps."""
    checkpoint = {"interval": 3, "by_epoch": False}
    options = {f"default_hooks.checkpoint.{key}": value for key, value in checkpoint.items()}
    return train(images, tmp_path_factory.mktemp("examined"), interval=50, **options)


def test_health_of_every_step_is_in_the_history(examined):
    # Rows a step: 2 of 8 images, 8 of 32 patches. In the second epoch the queues are in use, and
    # prototypes are not frozen; health after a step describes the next one.
    assert history(examined, "queue_fill").tolist() == [0.25, 0.5, 0.75] + [1] * 7
    assert history(examined, "queues_in_use").tolist() == [0] * 4 + [1] * 6
    assert history(examined, "frozen").tolist() == [1] * 4 + [0] * 6


def test_measures_are_taken_where_a_line_is_written(examined):
    assert {name: len(history(examined, name)) for name in MEASURES} == dict.fromkeys(MEASURES, 2)


def test_a_checkpoint_inside_an_epoch_has_the_history_up_to_it(examined):
    path = Path(examined.work_dir) / "iter_9.pth"
    saved = torch.load(path, weights_only=True)["message_hub"]
    assert saved["runtime_info"]["iter"] == 8
    for name, values in history_without_health(examined).items():
        assert np.array_equal(saved["log_scalars"][name]["log_history"], values[:9]), name


def test_a_loss_that_is_not_finite_ends_the_run_at_the_next_line(images, tmp_path):
    bad = BadGradient(2)
    seen = Hook()
    seen.before_train_iter = mock.Mock()
    with pytest.raises(RuntimeError, match=r"step 3 .*loss_cross_s1=nan; .*--resume"):
        train(images, tmp_path, bad, seen, interval=4)
    assert seen.before_train_iter.call_count == 4
    assert not list(tmp_path.glob("*.pth"))
