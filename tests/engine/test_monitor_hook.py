"""The hook that names troubles while a training runs, on recorded lines and in a training."""

import json
from types import SimpleNamespace
from unittest import mock

import pytest
from helpers.engine.pretrain_runner import make_runner
from mmengine.config import Config

from mmssprl.engine.log_processor import MonitorHook, PretrainLogProcessor


def warnings_of(lines):
    """What the hook says to lines that a log processor has written, one after the other."""
    logger = mock.Mock()
    processor = SimpleNamespace(latest=None)
    runner = SimpleNamespace(log_processor=processor, logger=logger)
    hook = MonitorHook()
    said = []
    for line in lines:
        processor.latest = line
        for _ in range(2):  # the steps between two lines say nothing new
            hook.after_train_iter(runner, 0)
            said += [(line["epochs_done"], call.args[0]) for call in logger.warning.mock_calls]
            logger.reset_mock()
    return said, hook


def line(epoch, **values):
    done = {"step": int(4 * epoch), "epochs_done": epoch, "progress": epoch / 20}
    return {"lr": 1e-3, **done, **values}


def test_a_trouble_is_named_once_and_in_one_line():
    lines = [line(e / 4, lr=0.0 if e > 8 else 1e-3) for e in range(1, 60)]
    ((epoch, text),), _ = warnings_of(lines)
    assert epoch == 3.25
    assert text.startswith("the learning rate has been 0 for 1 epoch")
    assert "\n" not in text


def test_old_lines_are_let_go():
    _, hook = warnings_of([line(e / 4) for e in range(1, 81)])
    kept = [record["epochs_done"] for record in hook._records]
    assert kept[0] == 16.0
    assert kept[-1] == 20.0


def test_in_a_training(images, tmp_path):
    runner = make_runner(
        images,
        tmp_path,
        max_epochs=4,
        log_processor={"type": "PretrainLogProcessor"},
        custom_hooks=[{"type": "PretrainHook"}, {"type": "MonitorHook"}],
        param_scheduler=[],
        **{"optim_wrapper.optimizer": {"type": "SGD", "lr": 0.0, "_delete_": True}},
    )
    with mock.patch.object(runner.logger, "warning") as warning:
        runner.train()
    texts = [call.args[0] for call in warning.mock_calls]
    (text,) = [text for text in texts if "docs/troubleshooting.md" in text]
    assert text.startswith("the learning rate has been 0 for 1 epoch")
    (path,) = tmp_path.glob("*/vis_data/scalars.json")
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    assert [item["epochs_done"] for item in lines] == [n / 2 for n in range(1, 9)]
    assert lines[-1]["progress"] == 1
    latest = runner.log_processor.latest
    assert latest["step"] == lines[-1]["step"] == 8
    assert latest["relative_pyramid_s0"] == lines[-1]["relative_pyramid_s0"]
    terms = runner.model.loss_terms()
    logged = {name: term for name, term in terms.items() if name in latest}
    assert len(logged) == 3
    for name, term in logged.items():
        relative = lines[-1][name.replace("loss", "relative")]
        assert relative == pytest.approx(lines[-1][name] / term.weight / term.chance)


def test_it_needs_the_lines_of_its_log_processor(images, tmp_path):
    runner = make_runner(images, tmp_path, custom_hooks=[{"type": "MonitorHook"}])
    with pytest.raises(TypeError, match="PretrainLogProcessor.*got LogProcessor"):
        runner.train()


def test_the_shipped_runtime_uses_it():
    cfg = Config.fromfile("configs/_base_/default_runtime.py")
    assert {"type": "MonitorHook"} in cfg.custom_hooks
    assert cfg.log_processor.type == PretrainLogProcessor.__name__
