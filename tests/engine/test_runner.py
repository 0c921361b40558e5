from contextlib import nullcontext

import psutil
import pytest
from helpers.engine.pretrain_runner import make_runner
from helpers.saving.stopped_runs import logged, train, write_pretraining
from mmengine.config import Config
from mmengine.hooks import Hook

from mmssprl.engine import runner
from mmssprl.engine.runner import use_trackers


class Workers(Hook):
    """Notes the processes that the training has started until its first step; then may fail."""

    def __init__(self, fails):
        self.fails = fails
        self.others = psutil.Process().children()
        self.found = []

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        children = psutil.Process().children()
        self.found = self.found or [child for child in children if child not in self.others]
        if self.fails:
            raise SystemExit("as planned")


@pytest.mark.parametrize("fails", [False, True])
def test_workers_end_with_the_training(fails, tmp_path):
    config = write_pretraining(tmp_path)
    loader = {"num_workers": 2, "persistent_workers": True}
    options = {f"train_dataloader.{name}": value for name, value in loader.items()}
    workers = Workers(fails)
    # The error holds the frames of the loop, and these the workers.
    with pytest.raises(SystemExit, match="as planned") if fails else nullcontext():
        train(config, tmp_path / "run", hooks=(workers,), options=options)
    assert len(workers.found) == 2
    assert psutil.wait_procs(workers.found, timeout=3)[1] == []


def kinds(cfg):
    return [backend["type"] for backend in cfg.visualizer.vis_backends]


def test_backends_are_added_to_those_of_the_config(monkeypatch):
    monkeypatch.setattr(runner.importlib.util, "find_spec", lambda name: name)  # installed
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


def test_an_event_file_has_the_scalars_of_the_log(images, tmp_path):
    pytest.importorskip("tensorboard")  # requirements/test.txt
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    cfg = Config({"work_dir": str(tmp_path)})
    use_trackers(cfg, ["tensorboard"])
    log = {"type": "PretrainLogProcessor", "window_size": 10}
    make_runner(images, tmp_path, 1, visualizer=cfg.visualizer, log_processor=log).train()
    lines = logged(tmp_path)
    (events,) = tmp_path.glob("*/vis_data/events.out.tfevents.*")
    found = EventAccumulator(str(events)).Reload()
    for name in ("loss", "relative_pyramid_s0"):
        shown = {event.step: event.value for event in found.Scalars(name)}
        assert len(shown) > 1
        assert shown == pytest.approx({line["step"]: line[name] for line in lines if name in line})
