"""The models of other packages are gone on with as exactly: data in any place, dropout, labels."""

import pytest
from helpers.datasets.labelled_folders import write_coco, write_masks, write_weights
from helpers.saving.stopped_runs import assert_equal_runs, train

from mmssprl.datasets.labels import find_labels
from mmssprl.finetuning.config import make_config, set_label_files
from mmssprl.finetuning.label_files import write_labels
from mmssprl.finetuning.options import FinetuneOptions

pytestmark = pytest.mark.fault

IN_A_STEP, BEFORE_THE_VALIDATION, LATE = 1, 3, 5
"""Of two epochs of four steps, each with a validation at its end."""


def check(folder, task, write, checkpoint="epoch_2.pth", loop="", **options):
    data = find_labels(str(write(folder / "data")), task)
    weights = str(write_weights(folder / "weights"))
    asked = FinetuneOptions(epochs=2, batch_size=4, image_px=48)
    cfg, _ = make_config(weights, data, task, asked)
    write_labels(data, folder / "labels")
    set_label_files(cfg, folder / "labels")
    config = folder / f"{task}.py"
    config.write_text(cfg.pretty_text + loop)
    options |= {
        "default_hooks.logger.interval": 1,
        "default_hooks.checkpoint.interval": 1,
        "train_cfg.val_interval": 4 if loop else 1,
    }
    train(config, folder / "whole", options=options)
    stops = (IN_A_STEP, BEFORE_THE_VALIDATION, LATE)
    train(config, folder / "cut", stops=stops, options=options)
    assert_equal_runs(folder / "cut", folder / "whole", checkpoint)


def in_this_process():
    parts = ("train", "val", "test")
    workers = {f"{part}_dataloader.num_workers": 0 for part in parts}
    return workers | {f"{part}_dataloader.persistent_workers": False for part in parts}


def test_a_classifier(tmp_path):
    # With workers of the validation that stay for the epochs that follow.
    check(tmp_path, "classify", write_coco)


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
