"""A training that is stopped after any step and gone on with equals one that never was."""

import shutil
import tarfile

import pytest
from mmengine.hooks import Hook
from stopped_runs import assert_equal_runs, logged, train, write_pretraining

from mmssprl.datasets import UnlabeledImages
from mmssprl.errors import UserValueError

pytestmark = pytest.mark.fault

FIRST, LAST_OF_EPOCH, FIRST_OF_NEXT, LATE = 0, 4, 5, 12


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return write_pretraining(tmp_path_factory.mktemp("pretraining"))


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    train(config, folder)
    return folder


@pytest.fixture
def loaded(monkeypatch):
    """The images that this process has decoded, by number."""
    numbers = []
    load = UnlabeledImages.load_image

    def note(self, index):
        numbers.append(index)
        return load(self, index)

    monkeypatch.setattr(UnlabeledImages, "load_image", note)
    return numbers


def test_stopped_four_times_with_larc_and_nothing_is_decoded_twice(config, whole, tmp_path, loaded):
    train(config, tmp_path, stops=(FIRST, LAST_OF_EPOCH, FIRST_OF_NEXT, LATE))
    assert_equal_runs(tmp_path, whole, "epoch_3.pth")
    assert len(loaded) == 3 * 10
    assert not list(tmp_path.glob("iter_*.pth")), "the last epoch's checkpoint supersedes them"


def test_stopped_with_adamw_and_two_workers(config, tmp_path):
    options = {
        "optim_wrapper.optimizer": {"_delete_": True, "type": "AdamW", "lr": 0.01},
        "train_dataloader.num_workers": 2,
        "train_dataloader.persistent_workers": True,
        "train_cfg.max_epochs": 2,
        "param_scheduler": [{"type": "MultiStepLR", "milestones": [1], "gamma": 0.1}],
    }
    train(config, tmp_path / "whole", options=options)
    train(config, tmp_path / "cut", stops=(2, 6), options=options)
    assert_equal_runs(tmp_path / "cut", tmp_path / "whole", "epoch_2.pth")


def test_images_in_a_tar_file(config, whole, tmp_path):
    tar = tmp_path / "images.tar"
    with tarfile.open(tar, "w") as file:
        file.add(config.parent / "images", ".")
    options = {"train_dataloader.dataset.data_root": str(tar)}
    train(config, tmp_path / "cut", stops=(3,), options=options)
    assert_equal_runs(tmp_path / "cut", whole, "epoch_3.pth")


class Kill(Exception):
    """What a test ends a training with."""


class KillAt(Hook):
    def __init__(self, step):
        self.step = step

    def before_train_iter(self, runner, *args, **kwargs):
        if runner.iter == self.step:
            raise Kill


def test_a_kill_costs_no_more_than_the_steps_since_the_last_save(config, whole, tmp_path):
    with pytest.raises(Kill):
        train(config, tmp_path, options={"save_every": "2"}, hooks=(KillAt(13),))
    # Epoch 2 ended with step 10, and the clock of steps is not set back by it.
    assert [path.name for path in tmp_path.glob("iter_*.pth")] == ["iter_12.pth"]
    assert (tmp_path / "last_checkpoint").read_text().endswith("iter_12.pth")
    shutil.rmtree(next(tmp_path.glob("*/vis_data")).parent)  # the log of step 13 is made again
    train(config, tmp_path, resume="auto")
    assert logged(tmp_path) == logged(whole)[12:]


def test_time_since_the_last_save(config, tmp_path):
    with pytest.raises(Kill):
        train(config, tmp_path, options={"save_every": "0.0001s"}, hooks=(KillAt(2),))
    assert [path.name for path in tmp_path.glob("iter_*.pth")] == ["iter_2.pth"]


@pytest.mark.parametrize("value", ["0", "often", "-5m", 1.5])
def test_nonsense_for_save_every(config, tmp_path, value):
    message = r"^save_every, if no number of steps from 1 on, must be a time such as 90m"
    with pytest.raises(UserValueError, match=message):
        train(config, tmp_path, options={"save_every": value})
    assert not list(tmp_path.iterdir())


def test_another_batch_size_is_refused(config, tmp_path):
    with pytest.raises(Kill):
        train(config, tmp_path, options={"save_every": 3}, hooks=(KillAt(4),))
    options = {"train_dataloader.batch_size": 5}
    with pytest.raises(UserValueError, match=r"5 samples a step and 2 steps an epoch, .* 2 and 5;"):
        train(config, tmp_path, resume="auto", options=options)
