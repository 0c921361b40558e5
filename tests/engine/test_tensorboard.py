"""What TensorBoard shows of a training, read back by its own package."""

import json

import pytest
from mmengine.config import Config
from pretrain_runner import make_runner

from mmssprl.engine.trackers import use_trackers


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
