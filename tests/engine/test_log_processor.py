import json
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from helpers.engine.pretrain_runner import make_runner
from helpers.engine.toy_run import write_config
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.hooks import Hook
from mmengine.logging import HistoryBuffer
from mmengine.runner import Runner

from mmssprl.engine import log_processor
from mmssprl.engine.launch import run
from mmssprl.engine.log_processor import MonitorHook
from mmssprl.models import SSPRL
from mmssprl.system.environment import peak_resident_mib


def train(images, work_dir, **overrides):  # noqa: F811
    options = {"train_dataloader.batch_size": 2, "default_hooks.logger.interval": 2}
    options["log_processor"] = {"type": "PretrainLogProcessor", "window_size": 10}
    runner = make_runner(images, work_dir, **options | overrides)
    runner.train()
    return runner, lines_of(work_dir)


def lines_of(work_dir):
    (path,) = Path(work_dir).glob("*/vis_data/scalars.json")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("prefix", ["", "train/"])
def test_times_are_means_since_the_last_line_beside_pace_memory_and_remaining_time(
    images, tmp_path, monkeypatch, prefix
):
    monkeypatch.setattr(Runner, "world_size", property(lambda self: 3))
    hierarchy = {"log_processor.log_with_hierarchy": prefix == "train/"}
    runner, lines = train(images, tmp_path, **hierarchy)
    # Two epochs of five steps, a line every two steps of an epoch.
    assert [line["iter"] for line in lines] == [2, 4, 7, 9]
    for line, steps in zip(lines, ((0, 2), (2, 4), (4, 7), (7, 9)), strict=True):
        for name in ("time", "data_time"):
            times = runner.message_hub.get_scalar(f"train/{name}").data[0]
            assert line[prefix + name] == pytest.approx(times[slice(*steps)].mean()), (name, steps)
        pace = 2 * 3 / line[f"{prefix}time"]
        assert line[f"{prefix}images_per_second"] == pytest.approx(pace)
        if get_device() == "cpu":
            assert 100 < line["memory"] <= peak_resident_mib()
        else:
            assert 0 < line["memory"] < 1000  # MiB of tensors, by mmengine
        assert line["eta"] > 0
    # Losses keep mmengine's window of ten steps.
    losses = runner.message_hub.get_scalar("train/loss").data[0]
    assert lines[-1][f"{prefix}loss"] == pytest.approx(losses[:9].mean())


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


def test_old_lines_are_let_go():
    hook, processor = MonitorHook(), SimpleNamespace()
    runner = SimpleNamespace(log_processor=processor, logger=mock.Mock())
    for n in range(1, 81):
        processor.latest = {"lr": 1e-3, "step": n, "epochs_done": n / 4, "progress": n / 80}
        for _ in range(2):  # the steps between two lines say nothing new
            hook.after_train_iter(runner, 0)
    assert [record["epochs_done"] for record in hook._records] == [n / 4 for n in range(64, 81)]


def test_in_a_training(images, tmp_path):
    hooks = [{"type": "PretrainHook"}, {"type": "MonitorHook"}]
    options = {"custom_hooks": hooks, "log_processor": {"type": "PretrainLogProcessor"}}
    options["optim_wrapper.optimizer"] = {"type": "SGD", "lr": 0.0, "_delete_": True}
    runner = make_runner(images, tmp_path, max_epochs=4, param_scheduler=[], **options)
    with mock.patch.object(runner.logger, "warning") as warning:
        runner.train()
    texts = [call.args[0] for call in warning.mock_calls]
    (text,) = [text for text in texts if "docs/troubleshooting.md" in text]
    assert text.startswith("the learning rate has been 0 for 1 epoch")
    assert "\n" not in text
    lines = lines_of(tmp_path)
    assert [item["epochs_done"] for item in lines] == [n / 2 for n in range(1, 9)]
    assert lines[-1]["progress"] == 1
    latest = runner.log_processor.latest
    assert latest["step"] == lines[-1]["step"] == 8
    assert latest["relative_pyramid_s0"] == lines[-1]["relative_pyramid_s0"]
    logged = [item for item in runner.model.loss_terms().items() if item[0] in latest]
    assert len(logged) == 3
    for name, term in logged:
        relative = lines[-1][name.replace("loss", "relative")]
        assert relative == pytest.approx(lines[-1][name] / term.weight / term.chance)


def test_it_needs_the_lines_of_its_log_processor(images, tmp_path):
    runner = make_runner(images, tmp_path, custom_hooks=[{"type": "MonitorHook"}])
    with pytest.raises(TypeError, match="PretrainLogProcessor.*got LogProcessor"):
        runner.train()


STEPS = 100
LOGGED = """
default_scope = "mmssprl"
train_dataloader["dataset"]["length"] = 100
train_cfg = dict(by_epoch=True, max_epochs=2)
default_hooks = dict(
    runtime_info=dict(type="PretrainRuntimeInfoHook"), logger=dict(type="LoggerHook", interval=10)
)
custom_hooks = [dict(type="MonitorHook")]
log_processor = dict(type="PretrainLogProcessor")
launcher = "none"
"""


class Observer(Hook):
    """Keeps all losses itself, and what the log says of them."""

    priority = "LOWEST"

    def __init__(self):
        self.losses, self.logged = [], []

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        self.losses.append(outputs["loss"].item())
        if (batch_idx + 1) % 10 == 0:
            self.logged.append(runner.log_processor.latest["loss"])

    def after_train(self, runner):
        histories = runner.message_hub.log_scalars.values()
        self.lengths = [len(history.data[0]) for history in histories]


@pytest.mark.parametrize(
    ("least", "window", "length"), [(1, 30, 50), (70, 30, 70), (1, 80, 80), (1, "global", STEPS)]
)
def test_histories_are_as_long_as_the_log_looks_back(tmp_path, monkeypatch, least, window, length):
    monkeypatch.setattr(log_processor, "LEAST", least)
    cfg, found = Config.fromfile(write_config(tmp_path, LOGGED)), Observer()
    cfg.work_dir = str(tmp_path)
    cfg.experiment_name = tmp_path.name  # runs of one second would share their histories
    own = {"data_src": "loss", "log_name": "own", "method_name": "mean", "window_size": window}
    cfg.log_processor.update(window_size=30, custom_cfg=[own])
    run(cfg, "train", hooks=[found], keep_record=False)
    assert set(found.lengths) == {length}  # of 50 steps an epoch, and a window of 30
    means = [np.mean(found.losses[max(0, n - 30) : n]) for n in range(10, STEPS + 1, 10)]
    assert found.logged == pytest.approx(means)


def test_the_shipped_runtime_uses_them():
    cfg = Config.fromfile("configs/_base_/default_runtime.py")
    assert cfg.log_processor.type == "PretrainLogProcessor"
    assert cfg.default_hooks.runtime_info.type == "PretrainRuntimeInfoHook"
    assert {"type": "MonitorHook"} in cfg.custom_hooks


def test_history_that_a_checkpoint_has_brought_is_cut():
    history = HistoryBuffer([1.0] * 10, [1] * 10)
    hook = log_processor.BoundedHistoriesHook()
    hook._length = 3
    hub = SimpleNamespace(log_scalars={"train/loss": history})
    hook.after_train_iter(SimpleNamespace(message_hub=hub), 0)
    history.update(2.0)
    assert history.data[0].tolist() == [1.0, 1.0, 2.0]
