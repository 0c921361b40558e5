"""A training that is stopped after any step and resumed equals an uninterrupted one.

Models of other packages too: data in any place, dropout, labels.
"""

import os
import shutil
import signal
import tarfile
from functools import partial
from unittest import mock

import psutil
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
from mmssprl.engine.launch import prepare_train_config
from mmssprl.errors import UserValueError
from mmssprl.finetuning.config import finetune_config, set_label_files
from mmssprl.finetuning.label_files import write_labels
from mmssprl.finetuning.options import FinetuneOptions
from mmssprl.saving.run_files import finished_weights

pytestmark = [pytest.mark.fault, pytest.mark.fence]


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return write_pretraining(tmp_path_factory.mktemp("pretraining"))


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    train(config, folder)
    return folder


def test_stopped_four_times_with_larc_without_decoding_twice(config, whole, tmp_path):
    load = mock.Mock(wraps=UnlabeledImages.load_image)
    with mock.patch.object(UnlabeledImages, "load_image", lambda *args: load(*args)):
        # The first, the last of an epoch, the first of the next one, and a late one.
        train(config, tmp_path, stops=(0, 4, 5, 12), number=signal.SIGINT)
    assert_equal_runs(tmp_path, whole, "epoch_3.pth")
    assert load.call_count == 3 * 10
    assert not list(tmp_path.glob("step_*.pth")), "the last epoch's checkpoint supersedes them"


def test_stopped_with_adamw_in_other_processes_than_the_whole_run(config, tmp_path):
    options = {
        "optim_wrapper.optimizer": {"_delete_": True, "type": "AdamW", "lr": 0.01},
        "train_cfg.max_epochs": 2,
        "param_scheduler": [{"type": "MultiStepLR", "milestones": [1], "gamma": 0.1}],
    }
    train(config, tmp_path / "whole", options=options)
    loader = {"num_workers": 2, "persistent_workers": True}
    options |= {f"train_dataloader.{name}": value for name, value in loader.items()}
    train(config, tmp_path / "cut", stops=(2, 6), number=signal.SIGXCPU, options=options)
    assert_equal_runs(tmp_path / "cut", tmp_path / "whole", "epoch_2.pth")


def test_stopped_with_images_in_a_tar_file(config, whole, tmp_path):
    tar = tmp_path / "images.tar"
    with tarfile.open(tar, "w") as file:
        file.add(config.parent / "images", ".")
    options = {"train_dataloader.dataset.data_root": str(tar)}
    work_dir = tmp_path / os.fsdecode(b"\xff")  # as any bytes may name it: no UTF-8
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


class KillAtEnd(Hook):
    def after_train(self, runner):
        raise Kill


def test_an_extended_training_that_ends_before_its_export_is_not_finished(config, whole, tmp_path):
    run = shutil.copytree(whole, tmp_path / "run")
    options = {"train_cfg.max_epochs": 4}
    with pytest.raises(Kill):
        train(config, run, resume="auto", hooks=(KillAtEnd(),), options=options)
    assert (run / "epoch_4.pth").exists()

    resuming = partial(prepare_train_config, run / "stopped.py", work_dir=run, resume="auto")
    assert finished_weights(resuming()) is None
    train(run / "stopped.py", run, resume="auto")
    assert finished_weights(resuming()) == run / "stopped_backbone.pth"


@pytest.fixture(scope="module")
def saved_by_the_clock(config, tmp_path_factory):
    """A run that was killed after a step, and the loader's processes that outlived it."""
    folder = tmp_path_factory.mktemp("clock")
    others = psutil.Process().children()
    options = {"save_every": "0.0001s", "train_dataloader.num_workers": 2}
    options["train_dataloader.persistent_workers"] = True
    with pytest.raises(Kill) as killed:
        train(config, folder, options=options, hooks=(KillAt(2),))
    workers = [each for each in psutil.Process().children() if each not in others]
    return folder, killed, psutil.wait_procs(workers, timeout=3)[1]


def test_a_save_by_the_clock_replaces_the_one_before(saved_by_the_clock):
    folder, _, _ = saved_by_the_clock
    assert [path.name for path in folder.glob("step_*.pth")] == ["step_2.pth"]


def test_the_processes_of_the_loader_end_with_a_training_that_fails(saved_by_the_clock):
    _, killed, alive = saved_by_the_clock
    assert alive == [], f"{killed} holds them by its frames"


def test_another_batch_size_is_not_resumed(config, saved_by_the_clock):
    options = {"train_dataloader.batch_size": 5}
    with pytest.raises(UserValueError, match="5 samples .* 2 and 5"):
        train(config, saved_by_the_clock[0], resume="auto", options=options)


@pytest.mark.parametrize("value", ["0", "often", "-5m", 1.5])
def test_what_is_no_time_between_saves_is_refused(config, tmp_path, value):
    with pytest.raises(UserValueError, match="^save_every.*90m"):
        train(config, tmp_path / "new", options={"save_every": value})
    assert not (tmp_path / "new").exists()


ITERS = "\ntrain_cfg = dict(type='IterBasedTrainLoop', max_iters=8)\n"


class TestBetweenCheckpoints:
    """The toy trains eight steps in two epochs."""

    def test_gradients_that_are_being_summed_up_are_waited_for(self, tmp_path):
        config = write_config(tmp_path, SCHEDULE)
        options = {"optim_wrapper.accumulative_counts": 2}
        train(config, tmp_path / "whole", options=options)
        state = torch.load(tmp_path / "whole/epoch_2.pth", weights_only=True)["state_dict"]
        assert state["linear.weight"] != 0
        train(config, tmp_path / "cut", stops=(0, 2, 4), options=options)
        assert_equal_runs(tmp_path / "cut", tmp_path / "whole", "epoch_2.pth")

    def test_a_validation_that_a_signal_stops_is_made_up_for(self, tmp_path):
        hook = SignalAt(4, signal.SIGTERM)
        hook.before_val_iter = mock.Mock(side_effect=hook.before_train_iter)
        config = write_config(tmp_path, SCHEDULE + BEST)
        with pytest.raises(StoppedError, match=str(SAVED)):
            train(config, tmp_path / "run", hooks=(hook,))
        assert hook.before_val_iter.call_count == 1
        assert [path.name for path in (tmp_path / "run").glob("*.pth")] == ["epoch_1.pth"]
        train(config, tmp_path / "run", resume="auto")
        validated = [line["step"] for line in logged(tmp_path / "run") if "total" in line]
        assert validated == [1, 2]

    def test_a_copy_that_is_resumed_deletes_its_own_best_checkpoint(self, tmp_path):
        config = write_config(tmp_path, SCHEDULE + BEST)
        train(config, tmp_path / "first", options={"train_cfg.max_epochs": 1})
        shutil.copytree(tmp_path / "first", tmp_path / "copy")
        train(config, tmp_path / "copy", resume="auto")
        best = {path.parent.name: path.name for path in tmp_path.glob("*/best_*.pth")}
        assert best == {"first": "best_total_epoch_1.pth", "copy": "best_total_epoch_2.pth"}

    @pytest.mark.parametrize("loop", ["", ITERS], ids=["epochs", "iters"])
    def test_a_run_that_stops_in_its_last_validation_is_not_finished(self, tmp_path, loop):
        hook = KillAt(8)
        hook.before_val_iter = hook.before_train_iter
        config = write_config(tmp_path, SCHEDULE + BEST + loop)
        if loop:
            with config.open("a") as file:
                file.write("train_cfg['val_interval'] = 8\n")
                file.write("default_hooks['checkpoint'].update(interval=8, by_epoch=False)\n")
        with pytest.raises(Kill):
            train(config, tmp_path / "run", hooks=(hook,))

        resuming = partial(prepare_train_config, config, work_dir=tmp_path / "run", resume="auto")
        assert finished_weights(resuming()) is None
        train(config, tmp_path / "run", resume="auto")
        assert finished_weights(resuming()).name == ("iter_8.pth" if loop else "epoch_2.pth")
        validated = [line for line in logged(tmp_path / "run") if "total" in line]
        assert len(validated) == (1 if loop else 2)

    def test_no_files_pile_up_where_checkpoints_count_steps(self, tmp_path):
        keep = {"type": "CheckpointHook", "by_epoch": False, "interval": 3, "max_keep_ckpts": 2}
        options = {"default_hooks.checkpoint": keep, "save_every": 1}
        config = write_config(tmp_path, SCHEDULE + ITERS)
        with pytest.raises(Kill):
            train(config, tmp_path / "run", hooks=(KillAt(7),), options=options)
        left = {path.name for path in (tmp_path / "run").glob("*.pth")}
        assert left == {"iter_3.pth", "iter_6.pth", "step_7.pth"}
        train(config, tmp_path / "run", resume="auto", options=options)
        left = {path.name for path in (tmp_path / "run").glob("*.pth")}
        assert left == {"iter_6.pth", "iter_8.pth"}


def check(folder, task, write, checkpoint="epoch_2.pth", loop="", **options):
    data = find_labels(str(write(folder / "data")), task)
    weights = str(write_weights(folder / "weights"))
    asked = FinetuneOptions(epochs=2, batch_size=4, image_px=48)
    cfg, _ = finetune_config(weights, data, task, asked)
    write_labels(data, folder / "labels", task)
    set_label_files(cfg, folder / "labels")
    config = folder / f"{task}.py"
    config.write_text(cfg.pretty_text + loop)
    options |= {f"default_hooks.{hook}.interval": 1 for hook in ("logger", "checkpoint")}
    options["train_cfg.val_interval"] = 4 if loop else 1
    train(config, folder / "whole", options=options)
    # Two epochs of four steps: in the first, before its validation, and in the second.
    train(config, folder / "cut", stops=(1, 3, 5), options=options)
    assert_equal_runs(folder / "cut", folder / "whole", checkpoint)


def workers(number):
    options = {}
    for part in ("train", "val", "test"):
        options[f"{part}_dataloader.num_workers"] = number
        options[f"{part}_dataloader.persistent_workers"] = number > 0
    return options


def test_a_classifier(tmp_path):
    # With workers of the validation that stay for the epochs that follow, and draws in each step.
    check(tmp_path, "classify", write_coco, **{"model.backbone.drop_path_rate": 0.5})


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "write", "num_workers"), [("segment", write_masks, 2), ("detect", write_coco, 0)]
)
def test_a_dense_task(tmp_path, task, write, num_workers):
    check(tmp_path, task, write, **workers(num_workers))


@pytest.mark.full
@pytest.mark.slow
def test_endless_batches_that_depend_on_all_images_before(tmp_path):
    options = workers(0) | {
        "train_dataloader.sampler.type": "InfiniteSampler",
        "train_dataloader.batch_sampler": {"type": "AspectRatioBatchSampler"},
        "train_dataloader.drop_last": False,
        "default_hooks.checkpoint.by_epoch": False,
        "default_hooks.checkpoint.max_keep_ckpts": 3,
        "default_hooks.logger.log_metric_by_epoch": False,
        "log_processor.by_epoch": False,
    }
    check(tmp_path, "detect", write_coco, "iter_8.pth", ITERS, **options)
