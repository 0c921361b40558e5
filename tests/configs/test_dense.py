"""Detection and segmentation configs: documented, and the paper's protocol number by number."""

from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import PARAM_SCHEDULERS

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "configs" / "benchmarks"
MASK_RCNN = "detection/mask-rcnn_resnet50-fpn_8xb2-15k_coco14"
MASK_RCNN_LONG = "detection/mask-rcnn_resnet50-fpn_8xb2-90k_coco14"
MASK_RCNN_SCENES = "detection/mask-rcnn_resnet18-fpn_scenes"
MASK_RCNN_PHOTOS = "detection/mask-rcnn_resnet18-fpn_coco128"
FCN = "segmentation/fcn_resnet50-d8_2xb8-20k_voc12aug-512x512"
FCN_SCENES = "segmentation/fcn_resnet18-d8_scenes"
FCN_PHOTOS = "segmentation/fcn_resnet18-d8_voc128"
FULL_SIZE = [MASK_RCNN, MASK_RCNN_LONG, FCN]
SMALL = [MASK_RCNN_SCENES, MASK_RCNN_PHOTOS, FCN_SCENES, FCN_PHOTOS]
ALL = FULL_SIZE + SMALL


def load(name):
    return Config.fromfile(BENCHMARKS / f"{name}.py")


def test_these_are_all():
    found = [*BENCHMARKS.glob("detection/*.py"), *BENCHMARKS.glob("segmentation/*.py")]
    assert {str(path.relative_to(BENCHMARKS).with_suffix("")) for path in found} == set(ALL)
    stems = [path.stem for path in (ROOT / "configs").rglob("*.py")]
    assert len(stems) == len(set(stems)), "mim finds configs by their base names"


@pytest.mark.parametrize("name", ALL)
def test_keeps_to_the_contract_of_benchmarks(name):
    cfg = load(name)
    assert cfg.weights == "random"
    assert "init_cfg" not in cfg.model.backbone
    assert cfg.default_scope == ("mmdet" if name.startswith("detection") else "mmseg")
    assert (cfg.resume, cfg.load_from, cfg.randomness.seed) == (False, None, 0)
    checkpoint = cfg.default_hooks.checkpoint
    assert (checkpoint.type, checkpoint.max_keep_ckpts) == ("CheckpointHook", 2)
    assert checkpoint.by_epoch is cfg.log_processor.by_epoch is False
    assert (cfg.train_cfg.type, cfg.train_cfg.max_iters) == ("IterBasedTrainLoop", cfg.max_iters)
    interval = 5000 if name in FULL_SIZE else cfg.max_iters
    assert cfg.train_cfg.val_interval == checkpoint.interval == interval
    # What is validated is what tools/test.py tests, and every data set lies below data_root.
    assert cfg.test_dataloader == cfg.val_dataloader
    assert cfg.test_evaluator == cfg.val_evaluator
    roots = {cfg[f"{split}_dataloader"].dataset.data_root for split in ("train", "val")}
    assert roots == {cfg.data_root}
    if name.startswith("detection"):
        annotations = cfg.val_dataloader.dataset.ann_file
        assert cfg.val_evaluator.ann_file == f"{cfg.data_root}/{annotations}"
    assert (cfg.model.backbone.frozen_stages, cfg.model.backbone.norm_eval) == (-1, False)


SGD = {"type": "SGD", "momentum": 0.9}


@pytest.mark.parametrize(
    ("name", "max_iters", "milestones"),
    [(MASK_RCNN, 15_000, [10_000, 13_333]), (MASK_RCNN_LONG, 90_000, [60_000, 80_000])],
)
def test_mask_rcnn_protocol(name, max_iters, milestones):
    """Section 4 of the method's notes; the short side and the warm-up are detectron2's."""
    cfg = load(name)
    assert cfg.train_cfg.max_iters == max_iters
    assert cfg.param_scheduler[1].milestones == milestones
    assert cfg.optim_wrapper.optimizer == {**SGD, "lr": 0.02, "weight_decay": 1e-4}
    assert cfg.train_dataloader.batch_size * 8 == 16
    assert cfg.auto_scale_lr == {"enable": False, "base_batch_size": 16}
    train, val = cfg.train_dataloader.dataset, cfg.val_dataloader.dataset
    for split, part in (("train2014", train), ("val2014", val)):
        assert part.ann_file == f"annotations/instances_{split}.json"
        assert part.data_prefix == {"img": f"{split}/"}
    resize, flip = train.pipeline[2:4]
    assert resize.scales == [(1333, short) for short in (640, 672, 704, 736, 768, 800)]
    assert (flip.type, flip.prob) == ("RandomFlip", 0.5)
    assert val.pipeline[1].scale == (1333, 800)
    assert resize.keep_ratio is val.pipeline[1].keep_ratio is True
    preprocessor = cfg.model.data_preprocessor
    assert preprocessor.mean == [123.675, 116.28, 103.53]
    assert preprocessor.std == [58.395, 57.12, 57.375]
    assert preprocessor.bgr_to_rgb is preprocessor.pad_mask is True
    assert preprocessor.pad_size_divisor == 32
    assert (cfg.val_evaluator.type, cfg.val_evaluator.metric) == ("CocoMetric", ["bbox", "segm"])
    iteration = np.arange(max_iters)
    warmup = 0.001 + (1 - 0.001) * np.minimum(iteration, 999) / 999
    tenths = sum((iteration >= milestone).astype(int) for milestone in milestones)
    np.testing.assert_allclose(learning_rates(cfg), 0.02 * warmup * 0.1**tenths, rtol=1e-6)


def test_fcn_protocol():
    """Section 4 of the method's notes; scaling and distortion are mmseg's for VOC."""
    cfg = load(FCN)
    assert cfg.optim_wrapper.optimizer == {**SGD, "lr": 0.01, "weight_decay": 5e-4}
    assert cfg.train_cfg.max_iters == cfg.param_scheduler[0].end == 20_000
    assert cfg.train_dataloader.batch_size * 2 == 16
    assert cfg.auto_scale_lr == {"enable": False, "base_batch_size": 16}
    assert cfg.data_root == "data/VOCdevkit/VOC2012"
    train, val = cfg.train_dataloader.dataset, cfg.val_dataloader.dataset
    for part, name, aug in ((train, "train_aug", "Aug"), (val, "val", "")):
        assert part.ann_file == f"ImageSets/Segmentation/{name}.txt"
        assert part.data_prefix.seg_map_path == f"SegmentationClass{aug}"
    assert train.pipeline[5].type == "PhotoMetricDistortion"
    resize, crop, flip = train.pipeline[2:5]
    assert (resize.scale, resize.ratio_range) == ((2048, 512), (0.5, 2.0))
    assert (crop.crop_size, crop.cat_max_ratio, flip.prob) == ((512, 512), 0.75, 0.5)
    assert cfg.model.data_preprocessor.size == (512, 512)
    assert val.pipeline[1].scale == (2048, 512)
    for head, index, weight in (
        (cfg.model.decode_head, 3, 1.0),
        (cfg.model.auxiliary_head, 2, 0.4),
    ):
        assert (head.type, head.in_index, head.num_classes) == ("FCNHead", index, 21)
        assert head.loss_decode.loss_weight == weight
    assert cfg.model.test_cfg == {"mode": "whole"}
    assert (cfg.val_evaluator.type, cfg.val_evaluator.iou_metrics) == ("IoUMetric", ["mIoU"])
    left = 1 - np.arange(20_000) / 19_999
    expected = (0.01 - 1e-4) * left**0.9 + 1e-4
    np.testing.assert_allclose(learning_rates(cfg), expected, rtol=1e-6)


def learning_rates(cfg):
    """The rate of each iteration, from mmengine's schedulers in the runner's order."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], cfg.base_lr)
    schedulers = [
        PARAM_SCHEDULERS.build({**scheduler, "optimizer": optimizer})
        for scheduler in cfg.param_scheduler
    ]
    rates = []
    for _ in range(cfg.max_iters):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
    return np.array(rates)


@pytest.mark.parametrize("name", SMALL)
def test_learning_rate_of_small_configs_ends_near_zero(name):
    cfg = load(name)
    rates = learning_rates(cfg)
    assert rates.max() == pytest.approx(cfg.base_lr, rel=0.01)
    assert 0 <= rates[-1] < cfg.base_lr / 500
    assert [scheduler.end for scheduler in cfg.param_scheduler][-1] == cfg.max_iters
