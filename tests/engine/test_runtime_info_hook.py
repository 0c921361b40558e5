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
    *("effective_rank", "alignment", "alignment_others"),
    *(f"prototypes_in_use_s{s}" for s in (0, 1)),
    *(f"{kind}_perplexity_s{s}" for s in (0, 1) for kind in ("code", "prediction")),
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


def history(runner):
    return {
        name: buffer.data[0]
        for name, buffer in runner.message_hub.log_scalars.items()
        if name.removeprefix("train/") not in TIMES | HEALTH | MEASURES
    }


def logged(runner):
    return [
        [(key, None if key in TIMES else line[key]) for key in line if key not in HEALTH | MEASURES]
        for line in read_log(runner.work_dir)
    ]


@pytest.mark.parametrize("interval", [2, 50])
def test_logs_and_history_equal_those_of_mmengine_s_hook(images, tmp_path, interval):
    stock = train(images, tmp_path / "stock", interval=interval, ours=False)
    ours = train(images, tmp_path / "ours", interval=interval)
    assert len(logged(stock)) == 2 * max(1, STEPS // interval)
    assert logged(ours) == logged(stock)  # names, values and their order
    assert history(ours).keys() == history(stock).keys() >= {"train/loss", "train/lr"}
    for name, values in history(stock).items():
        assert len(values) == 2 * STEPS
        assert np.array_equal(history(ours)[name], values), name


def test_the_model_s_health_of_every_step_is_in_the_history_and_in_checkpoints(images, tmp_path):
    key = "default_hooks.checkpoint"
    runner = train(
        images, tmp_path, interval=50, **{f"{key}.interval": 3, f"{key}.by_epoch": False}
    )
    found = {name: runner.message_hub.get_scalar(f"train/{name}").data[0] for name in HEALTH}
    # Rows a step: 2 of 8 images, 8 of 32 patches. In the second epoch the queues are in use, and
    # prototypes are not frozen; health after a step is that of the next one.
    # Measures are taken when a line is written, at the end of each epoch.
    assert {len(runner.message_hub.get_scalar(f"train/{n}").data[0]) for n in MEASURES} == {2}
    assert found["queue_fill"].tolist() == [0.25, 0.5, 0.75] + [1] * 7
    assert found["queues_in_use"].tolist() == [0] * 4 + [1] * 6
    assert found["frozen"].tolist() == [1] * 4 + [0] * 6
    saved = torch.load(tmp_path / "iter_9.pth", weights_only=True)["message_hub"]
    for name, values in history(runner).items():
        assert np.array_equal(saved["log_scalars"][name]["log_history"], values[:9]), name
    assert saved["runtime_info"]["iter"] == 8


def test_a_loss_that_is_not_finite_ends_the_run_at_the_next_line(images, tmp_path):
    seen, bad = Hook(), BadGradient(2)
    seen.before_train_iter = mock.Mock()
    with pytest.raises(RuntimeError, match=r"step 3 .*loss_cross_s1=nan; .*--resume"):
        train(images, tmp_path, bad, seen, interval=4)
    assert seen.before_train_iter.call_count == 4
    assert not list(tmp_path.glob("*.pth"))
