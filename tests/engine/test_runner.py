import psutil
import pytest
from helpers.saving.stopped_runs import train, write_pretraining
from mmengine.hooks import Hook


class Workers(Hook):
    """Records the processes that the training has started at its first step, and fails."""

    def before_train(self, runner):
        self.others = psutil.Process().children()

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        children = psutil.Process().children()
        self.found = [child for child in children if child not in self.others]
        raise SystemExit("as planned")


def test_workers_end_with_the_training(tmp_path):
    config = write_pretraining(tmp_path)
    loader = {"num_workers": 2, "persistent_workers": True}
    options = {f"train_dataloader.{name}": value for name, value in loader.items()}
    workers = Workers()
    # The error holds the loop's frames, which hold the workers.
    with pytest.raises(SystemExit, match="as planned"):
        train(config, tmp_path / "run", hooks=(workers,), options=options)
    assert len(workers.found) == 2
    assert psutil.wait_procs(workers.found, timeout=3)[1] == []
