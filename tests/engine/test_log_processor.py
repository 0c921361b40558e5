from unittest import mock

import pytest
from helpers.engine.logs import read_log
from helpers.engine.pretrain_runner import make_runner
from mmengine.device import get_device
from mmengine.runner import Runner

from mmssprl.engine.log_processor import PretrainLogProcessor
from mmssprl.errors import UserValueError
from mmssprl.models import SSPRL
from mmssprl.system.environment import peak_resident_mib


def train(images, work_dir, **overrides):
    options = {"train_dataloader.batch_size": 2, "default_hooks.logger.interval": 2}
    options["log_processor"] = {"type": "PretrainLogProcessor", "window_size": 10}
    runner = make_runner(images, work_dir, **options | overrides)
    runner.train()
    return runner, read_log(work_dir)


def test_times_are_means_since_the_last_line(images, tmp_path, monkeypatch):
    monkeypatch.setattr(Runner, "world_size", property(lambda self: 3))
    runner, lines = train(images, tmp_path / "whole")
    # Two epochs of five steps, a line every two steps of an epoch.
    assert [line["iter"] for line in lines] == [2, 4, 7, 9]
    for line, steps in zip(lines, ((0, 2), (2, 4), (4, 7), (7, 9)), strict=True):
        for name in ("time", "data_time"):
            times = runner.message_hub.get_scalar(f"train/{name}").data[0]
            assert line[name] == pytest.approx(times[slice(*steps)].mean()), (name, steps)
        pace = 2 * 3 / line["time"]
        assert line["images_per_second"] == pytest.approx(pace)
        assert get_device() != "cpu" or 100 < line["memory"] <= peak_resident_mib()
        assert line["eta"] > 0
    # Losses keep mmengine's window of ten steps.
    losses = runner.message_hub.get_scalar("train/loss").data[0]
    assert lines[-1]["loss"] == pytest.approx(losses[:9].mean())
    with pytest.raises(UserValueError, match="^log_with_hierarchy must be False"):
        PretrainLogProcessor(log_with_hierarchy=True)
    # A resumed run counts its own steps.
    of_epoch_1 = {"resume": True, "load_from": str(tmp_path / "whole/epoch_1.pth")}
    runner, lines = train(images, tmp_path / "resumed", **of_epoch_1)
    assert [line["iter"] for line in lines] == [7, 9]
    times = runner.message_hub.get_scalar("train/time").data[0]
    assert lines[0]["time"] == pytest.approx(times[5:7].mean())


def test_a_relative_loss_is_of_steps_with_one_weight(images, tmp_path, monkeypatch):
    terms = SSPRL.loss_terms
    monkeypatch.setattr(
        SSPRL, "loss_terms", lambda self: {n: t._replace(since=3) for n, t in terms(self).items()}
    )
    _, lines = train(images, tmp_path, **{"log_processor.window_size": 5})
    # The window of step 7 still holds step 3, which had another weight.
    assert [line["iter"] for line in lines if "relative_pyramid_s0" in line] == [9]


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
    lines = read_log(tmp_path)
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
