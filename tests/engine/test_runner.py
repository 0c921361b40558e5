"""What the runner does at the end of a training."""

from types import SimpleNamespace

import psutil
import pytest
from mmengine.config import Config
from mmengine.hooks import Hook
from pretrain_runner import make_runner

from mmssprl.engine.runner import ConsoleRunner


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
            raise RuntimeError("as planned")


@pytest.mark.parametrize("fails", [False, True])
def test_workers_end_with_the_training(fails, images, tmp_path):
    loader = {"num_workers": 2, "persistent_workers": True}
    runner = make_runner(
        images, tmp_path, max_epochs=1, kind=ConsoleRunner, train_dataloader=loader
    )
    workers = Workers(fails)
    runner.register_hook(workers)
    if fails:
        # The error holds the frames of the loop, and these the workers.
        with pytest.raises(RuntimeError, match="as planned"):
            runner.train()
    else:
        runner.train()
    assert len(workers.found) == 2
    assert psutil.wait_procs(workers.found, timeout=3)[1] == []


def test_a_run_that_was_stopped_before_its_first_checkpoint_begins_anew_in_one_line(tmp_path):
    told = []
    runner = ConsoleRunner.__new__(ConsoleRunner)
    runner.cfg = Config({"work_dir": str(tmp_path)})
    runner._work_dir, runner.logger = str(tmp_path), SimpleNamespace(info=told.append)
    runner._resume, runner._load_from, runner._has_loaded = True, None, False
    runner.load_or_resume()
    assert told == [f"{tmp_path} has no checkpoint yet: the run begins anew."]
