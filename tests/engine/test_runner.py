"""What the runner does at the end of a training."""

import psutil
import pytest
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
