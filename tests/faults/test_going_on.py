"""A training that is stopped after any step and resumed equals an uninterrupted one.

Models of other packages too: data in any place, dropout, labels.
"""

import os
import shutil
import signal
import tarfile
from contextlib import nullcontext

import pytest
import torch
from helpers.datasets.labelled_folders import write_coco, write_masks, write_weights
from helpers.engine.toy_run import write_config
from helpers.saving.stopped_runs import (
    SAVED,
    SignalAt,
    StoppedError,
    assert_equal_runs,
    logged,
    train,
    write_pretraining,
)
from helpers.saving.toy_checkpoint import BEST, SCHEDULE
from mmengine.hooks import Hook

from mmssprl.datasets import UnlabeledImages
from mmssprl.datasets.labels import find_labels
from mmssprl.errors import UserValueError
from mmssprl.finetuning.config import finetune_config, set_label_files
from mmssprl.finetuning.label_files import write_labels
from mmssprl.finetuning.options import FinetuneOptions

pytestmark = [pytest.mark.fault, pytest.mark.fence]

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
    assert not list(tmp_path.glob("step_*.pth")), "the last epoch's checkpoint supersedes them"


def test_stopped_with_adamw_and_two_workers_where_the_whole_run_had_none(config, tmp_path):
    options = {
        "optim_wrapper.optimizer": {"_delete_": True, "type": "AdamW", "lr": 0.01},
        "train_dataloader.num_workers": 2,
        "train_dataloader.persistent_workers": True,
        "train_cfg.max_epochs": 2,
        "param_scheduler": [{"type": "MultiStepLR", "milestones": [1], "gamma": 0.1}],
    }
    in_this_process = {
        "train_dataloader.num_workers": 0,
        "train_dataloader.persistent_workers": False,
    }
    train(config, tmp_path / "whole", options=options | in_this_process)
    train(config, tmp_path / "cut", stops=(2, 6), number=signal.SIGXCPU, options=options)
    assert_equal_runs(tmp_path / "cut", tmp_path / "whole", "epoch_2.pth")


def test_images_in_a_tar_file_and_a_work_dir_of_any_bytes(config, whole, tmp_path):
    tar = tmp_path / "images.tar"
    with tarfile.open(tar, "w") as file:
        file.add(config.parent / "images", ".")
    options = {"train_dataloader.dataset.data_root": str(tar)}
    work_dir = tmp_path / os.fsdecode(b"\xff")  # no UTF-8
    train(config, work_dir, stops=(3,), number=signal.SIGUSR1, options=options)
    assert_equal_runs(work_dir, whole, "epoch_3.pth")


class Kill(Exception):
    """Ends a training without saving."""


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
    assert [path.name for path in tmp_path.glob("step_*.pth")] == ["step_12.pth"]
    assert (tmp_path / "last_checkpoint").read_text().endswith("step_12.pth")
    shutil.rmtree(next(tmp_path.glob("*/vis_data")).parent)  # the log of step 13 is made again
    train(config, tmp_path, resume="auto")
    assert logged(tmp_path) == logged(whole)[12:]


def test_a_save_by_the_clock_and_another_batch_size_that_is_refused(config, tmp_path):
    with pytest.raises(Kill):
        train(config, tmp_path, options={"save_every": "0.0001s"}, hooks=(KillAt(2),))
    assert [path.name for path in tmp_path.glob("step_*.pth")] == ["step_2.pth"]
    options = {"train_dataloader.batch_size": 5}
    with pytest.raises(UserValueError, match="5 samples .* 2 and 5"):
        train(config, tmp_path, resume="auto", options=options)


@pytest.mark.parametrize("value", ["0", "often", "-5m", 1.5])
def test_nonsense_for_save_every(config, tmp_path, value):
    with pytest.raises(UserValueError, match="^save_every.*90m"):
        train(config, tmp_path, options={"save_every": value})
    assert not list(tmp_path.iterdir())


class SignalInValidation(SignalAt):
    """Sends the signal in the first batch of a validation, and counts the batches."""

    batches = 0

    def before_val_iter(self, runner, *args, **kwargs):
        self.batches += 1
        super().before_train_iter(runner)


class TestBetweenCheckpoints:
    """The toy trains eight steps in two epochs."""

    @staticmethod
    def start(folder, stops=(), kill=None, text="", **options):
        config = write_config(folder, SCHEDULE + text)
        with nullcontext() if kill is None else pytest.raises(Kill):
            hooks = () if kill is None else (KillAt(kill),)
            train(config, folder / "run", stops=stops, hooks=hooks, options=options)
        return sorted(path.name for path in (folder / "run").glob("*.pth"))

    def test_gradients_that_are_being_summed_up_are_waited_for(self, tmp_path):
        states = []
        for name, stops in (("whole", ()), ("cut", (0, 2, 4))):
            (tmp_path / name).mkdir()
            self.start(tmp_path / name, stops, **{"optim_wrapper.accumulative_counts": 2})
            states.append(torch.load(tmp_path / name / "run/epoch_2.pth", weights_only=True))
        whole, cut = (state["state_dict"] for state in states)
        assert all(torch.equal(whole[name], cut[name]) for name in whole)
        assert whole["linear.weight"] != 0

    def test_a_validation_whose_weights_are_saved_is_made_up_for(self, tmp_path):
        hook = SignalInValidation(4, signal.SIGTERM)
        config = write_config(tmp_path, SCHEDULE + BEST)
        with pytest.raises(StoppedError, match=str(SAVED)):
            train(config, tmp_path / "run", hooks=(hook,))
        assert hook.batches == 1
        assert [path.name for path in (tmp_path / "run").glob("*.pth")] == ["epoch_1.pth"]
        train(config, tmp_path / "run", resume="auto")
        validated = [line["step"] for line in logged(tmp_path / "run") if "total" in line]
        assert validated == [1, 2]

    def test_no_files_pile_up_where_checkpoints_count_steps(self, tmp_path):
        keep = {"type": "CheckpointHook", "by_epoch": False, "interval": 3, "max_keep_ckpts": 2}
        options = {"default_hooks.checkpoint": keep, "save_every": 1}
        text = "train_cfg = dict(type='IterBasedTrainLoop', max_iters=8)\n"
        left = ["iter_3.pth", "iter_6.pth", "step_7.pth"]
        assert self.start(tmp_path, kill=7, text=text, **options) == left
        (tmp_path / "other").mkdir()
        left = ["iter_6.pth", "iter_8.pth"]
        assert self.start(tmp_path / "other", text=text, **options) == left


IN_A_STEP, BEFORE_THE_VALIDATION, IN_EPOCH_2 = 1, 3, 5
"""Steps of two epochs of four steps, each with a validation at its end."""


def check(folder, task, write, checkpoint="epoch_2.pth", loop="", **options):
    data = find_labels(str(write(folder / "data")), task)
    weights = str(write_weights(folder / "weights"))
    asked = FinetuneOptions(epochs=2, batch_size=4, image_px=48)
    cfg, _ = finetune_config(weights, data, task, asked)
    write_labels(data, folder / "labels", task)
    set_label_files(cfg, folder / "labels")
    config = folder / f"{task}.py"
    config.write_text(cfg.pretty_text + loop)
    options |= {
        "default_hooks.logger.interval": 1,
        "default_hooks.checkpoint.interval": 1,
        "train_cfg.val_interval": 4 if loop else 1,
    }
    train(config, folder / "whole", options=options)
    stops = (IN_A_STEP, BEFORE_THE_VALIDATION, IN_EPOCH_2)
    train(config, folder / "cut", stops=stops, options=options)
    assert_equal_runs(folder / "cut", folder / "whole", checkpoint)


def in_this_process():
    parts = ("train", "val", "test")
    workers = {f"{part}_dataloader.num_workers": 0 for part in parts}
    return workers | {f"{part}_dataloader.persistent_workers": False for part in parts}


def test_a_classifier(tmp_path):
    # With workers of the validation that stay for the epochs that follow, and draws in each step.
    check(tmp_path, "classify", write_coco, **{"model.backbone.drop_path_rate": 0.5})


@pytest.mark.full
@pytest.mark.slow
def test_a_segmentation_with_workers(tmp_path):
    options = {f"{part}_dataloader.num_workers": 2 for part in ("train", "val")}
    check(tmp_path, "segment", write_masks, **options)


@pytest.mark.full
@pytest.mark.slow
def test_a_detector(tmp_path):
    check(tmp_path, "detect", write_coco, **in_this_process())


@pytest.mark.full
@pytest.mark.slow
def test_batches_that_depend_on_all_images_before_and_an_endless_sampler(tmp_path):
    options = in_this_process() | {
        "train_dataloader.sampler.type": "InfiniteSampler",
        "train_dataloader.batch_sampler": {"type": "AspectRatioBatchSampler"},
        "train_dataloader.drop_last": False,
        "default_hooks.checkpoint.by_epoch": False,
        "default_hooks.checkpoint.max_keep_ckpts": 3,
        "default_hooks.logger.log_metric_by_epoch": False,
        "log_processor.by_epoch": False,
    }
    loop = "\ntrain_cfg = dict(type='IterBasedTrainLoop', max_iters=8)\n"
    check(tmp_path, "detect", write_coco, "iter_8.pth", loop, **options)
