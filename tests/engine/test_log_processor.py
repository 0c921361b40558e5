"""Pace and memory in the log of a pre-training, against the recorded times."""

import json
from pathlib import Path

import pytest
from helpers.engine.pretrain_runner import make_runner
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.runner import Runner

from mmssprl.models import SSPRL
from mmssprl.system.environment import peak_resident_mib


def train(images, work_dir, **overrides):  # noqa: F811
    runner = make_runner(
        images,
        work_dir,
        **{
            "train_dataloader.batch_size": 2,
            "default_hooks.logger.interval": 2,
            "log_processor": {"type": "PretrainLogProcessor", "window_size": 10},
            **overrides,
        },
    )
    runner.train()
    (path,) = Path(work_dir).glob("*/vis_data/scalars.json")
    return runner, [json.loads(line) for line in path.read_text().splitlines()]


def test_times_are_means_over_the_steps_since_the_last_line(images, tmp_path):  # noqa: F811
    runner, lines = train(images, tmp_path)
    # Two epochs of five steps, a line every two steps of an epoch.
    assert [line["iter"] for line in lines] == [2, 4, 7, 9]
    for line, steps in zip(lines, ((0, 2), (2, 4), (4, 7), (7, 9)), strict=True):
        for name in ("time", "data_time"):
            times = runner.message_hub.get_scalar(f"train/{name}").data[0]
            assert line[name] == pytest.approx(times[slice(*steps)].mean()), (name, steps)
    # Losses keep mmengine's window of ten steps.
    losses = runner.message_hub.get_scalar("train/loss").data[0]
    assert lines[-1]["loss"] == pytest.approx(losses[:9].mean())


def test_a_resumed_run_counts_its_own_steps(images, tmp_path):  # noqa: F811
    train(images, tmp_path / "a", max_epochs=1)
    runner, lines = train(
        images, tmp_path / "b", resume=True, load_from=str(tmp_path / "a/epoch_1.pth")
    )
    assert [line["iter"] for line in lines] == [7, 9]
    times = runner.message_hub.get_scalar("train/time").data[0]
    assert lines[0]["time"] == pytest.approx(times[5:7].mean())


def test_a_relative_loss_is_of_steps_with_one_weight(images, tmp_path, monkeypatch):  # noqa: F811
    terms = SSPRL.loss_terms
    monkeypatch.setattr(
        SSPRL, "loss_terms", lambda self: {n: t._replace(since=3) for n, t in terms(self).items()}
    )
    _, lines = train(images, tmp_path, **{"log_processor.window_size": 5})
    # The window of step 7 still holds step 3, which had another weight.
    assert [line["iter"] for line in lines if "relative_pyramid_s0" in line] == [9]


@pytest.mark.parametrize("hierarchy", [False, True])
def test_pace_memory_and_remaining_time(images, tmp_path, monkeypatch, hierarchy):  # noqa: F811
    monkeypatch.setattr(Runner, "world_size", property(lambda self: 3))
    _, lines = train(images, tmp_path, **{"log_processor.log_with_hierarchy": hierarchy})
    prefix = "train/" if hierarchy else ""
    for line in lines:
        seconds = line[f"{prefix}time"]
        assert line[f"{prefix}images_per_second"] == pytest.approx(2 * 3 / seconds)
        if get_device() == "cpu":
            assert 100 < line["memory"] <= peak_resident_mib()
        else:
            assert 0 < line["memory"] < 1000  # MiB of tensors, by mmengine
        assert line["eta"] > 0


def test_the_shipped_runtime_uses_it():
    path = Path(__file__).parents[2] / "configs/_base_/default_runtime.py"
    assert Config.fromfile(path).log_processor.type == "PretrainLogProcessor"
