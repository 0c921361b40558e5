"""TensorBoard and Weights & Biases beside a run's own log."""

import json

import pytest
from helpers.engine.pretrain_runner import make_runner
from mmengine.config import Config

from mmssprl.engine import runner
from mmssprl.engine.runner import use_trackers


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(runner.importlib.util, "find_spec", lambda name: name)


def kinds(cfg):
    return [backend["type"] for backend in cfg.visualizer.vis_backends]


def test_backends_are_added_to_those_of_the_config(installed):
    cfg = Config.fromfile("configs/_base_/default_runtime.py")
    cfg.work_dir = "work_dirs/photos"
    use_trackers(cfg, ["tensorboard", "wandb"])
    assert kinds(cfg) == ["LocalVisBackend", "TensorboardVisBackend", "WandbVisBackend"]
    assert cfg.vis_backends == cfg.visualizer.vis_backends
    run = {"project": "mmssprl", "name": "photos"}
    assert cfg.visualizer.vis_backends[2]["init_kwargs"] == run
    without = Config({"work_dir": "w"})
    use_trackers(without, ["tensorboard"])
    assert without.visualizer.type == "Visualizer"
    assert kinds(without) == ["LocalVisBackend", "TensorboardVisBackend"]
    own = {"type": "TensorboardVisBackend", "save_dir": "own"}
    cfg = Config({"work_dir": "w", "visualizer": {"type": "Visualizer", "vis_backends": [own]}})
    use_trackers(cfg, ["tensorboard"])
    assert cfg.visualizer.vis_backends == [own], "kept and not doubled"


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    monkeypatch.setattr(runner.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="wandb .*pip install wandb"):
        use_trackers(Config({"work_dir": "w"}), ["wandb"])


def test_an_event_file_has_the_scalars_of_the_log(images, tmp_path):
    pytest.importorskip("tensorboard")  # requirements/test.txt
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    cfg = Config({"work_dir": str(tmp_path)})
    use_trackers(cfg, ["tensorboard"])
    log = {"type": "PretrainLogProcessor", "window_size": 10}
    make_runner(images, tmp_path, 1, visualizer=cfg.visualizer, log_processor=log).train()
    (path,) = tmp_path.glob("*/vis_data/scalars.json")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    (events,) = tmp_path.glob("*/vis_data/events.out.tfevents.*")
    found = EventAccumulator(str(events)).Reload()
    for name in ("loss", "relative_pyramid_s0"):
        shown = {event.step: event.value for event in found.Scalars(name)}
        assert len(shown) > 1
        assert shown == pytest.approx({line["step"]: line[name] for line in lines if name in line})
