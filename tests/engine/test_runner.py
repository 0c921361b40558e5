from contextlib import nullcontext

import psutil
import pytest
from helpers.engine.pretrain_runner import make_runner
from helpers.saving.stopped_runs import logged, train, write_pretraining
from mmengine.hooks import Hook


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


def test_an_event_file_has_the_scalars_of_the_log(images, tmp_path):
    pytest.importorskip("tensorboard")  # requirements/test.txt
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    backends = [{"type": "LocalVisBackend"}, {"type": "TensorboardVisBackend"}]
    visualizer = {"type": "Visualizer", "vis_backends": backends}
    log = {"type": "PretrainLogProcessor", "window_size": 10}
    make_runner(images, tmp_path, 1, visualizer=visualizer, log_processor=log).train()
    lines = logged(tmp_path)
    (events,) = tmp_path.glob("*/vis_data/events.out.tfevents.*")
    found = EventAccumulator(str(events)).Reload()
    for name in ("loss", "relative_pyramid_s0"):
        shown = {event.step: event.value for event in found.Scalars(name)}
        assert len(shown) > 1
        assert shown == pytest.approx({line["step"]: line[name] for line in lines if name in line})
