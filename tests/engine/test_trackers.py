"""TensorBoard and Weights & Biases beside a run's own log."""

import pytest
from mmengine.config import Config

from mmssprl.engine import trackers
from mmssprl.engine.trackers import use_trackers


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    monkeypatch.setattr(trackers.importlib.util, "find_spec", lambda name: name)


def kinds(cfg):
    return [backend["type"] for backend in cfg.visualizer.vis_backends]


def test_backends_are_added_to_those_of_the_config():
    cfg = Config.fromfile("configs/_base_/default_runtime.py")
    cfg.work_dir = "work_dirs/photos"
    use_trackers(cfg, ["tensorboard", "wandb"])
    assert kinds(cfg) == ["LocalVisBackend", "TensorboardVisBackend", "WandbVisBackend"]
    assert cfg.vis_backends == cfg.visualizer.vis_backends
    run = {"project": "mmssprl", "name": "photos"}
    assert cfg.visualizer.vis_backends[2]["init_kwargs"] == run


def test_a_config_without_a_visualizer_keeps_its_own_log():
    cfg = Config({"work_dir": "w"})
    use_trackers(cfg, ["tensorboard"])
    assert cfg.visualizer.type == "Visualizer"
    assert kinds(cfg) == ["LocalVisBackend", "TensorboardVisBackend"]


def test_a_backend_of_the_config_is_kept_and_not_doubled():
    own = {"type": "TensorboardVisBackend", "save_dir": "own"}
    cfg = Config({"work_dir": "w", "visualizer": {"type": "Visualizer", "vis_backends": [own]}})
    use_trackers(cfg, ["tensorboard"])
    assert cfg.visualizer.vis_backends == [own]


def test_none_changes_nothing():
    cfg = Config({"work_dir": "w"})
    use_trackers(cfg, [])
    assert "visualizer" not in cfg


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    monkeypatch.setattr(trackers.importlib.util, "find_spec", lambda name: None)
    message = r"--wandb needs the package wandb, but .*; pip install wandb\."
    with pytest.raises(RuntimeError, match=message):
        use_trackers(Config({"work_dir": "w"}), ["wandb"])
