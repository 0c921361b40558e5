from itertools import chain

import numpy as np
import pytest
import torch
from helpers.config.learning_rates import learning_rates
from helpers.package.checkout import ROOT
from mmengine.config import Config
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import MODELS, DefaultScope
from mmengine.runner import Runner
from torchvision.models import resnet50

from mmssprl.datasets.scenes import SCENE_CATEGORIES, generate_scenes

pytestmark = pytest.mark.fence

BENCHMARKS = ROOT / "configs" / "benchmarks"
MASK_RCNN = "detection/mask-rcnn_resnet50-fpn_8xb2-15k_coco14"
MASK_RCNN_LONG = "detection/mask-rcnn_resnet50-fpn_8xb2-90k_coco14"
FCN = "segmentation/fcn_resnet50-d8_2xb8-20k_voc12aug-512x512"
SMALL = [
    f"{path.parent.name}/{path.stem}"
    for path in sorted(BENCHMARKS.glob("*/*resnet18*.py"))
    if path.parent.name in ("detection", "segmentation")
]
SGD = {"type": "SGD", "momentum": 0.9}
LINEAR = torch.nn.Linear(1, 1)
BATCH_NORMS = (torch.nn.BatchNorm2d, torch.nn.SyncBatchNorm)


def load(name):
    return Config.fromfile(BENCHMARKS / f"{name}.py")


@pytest.mark.parametrize("name", [MASK_RCNN, MASK_RCNN_LONG, FCN, *SMALL])
def test_keeps_to_the_contract_of_benchmarks(name):
    assert len(SMALL) == 4
    cfg = load(name)
    assert cfg.default_scope == ("mmdet" if name.startswith("detection") else "mmseg")
    assert (cfg.resume, cfg.load_from, cfg.randomness.seed) == (False, None, 0)
    interval = cfg.max_iters if name in SMALL else 5000
    hook = {"type": "CheckpointHook", "by_epoch": False, "interval": interval, "max_keep_ckpts": 2}
    assert (cfg.default_hooks.checkpoint, cfg.log_processor.by_epoch) == (hook, False)
    loop = {"type": "IterBasedTrainLoop", "max_iters": cfg.max_iters, "val_interval": interval}
    assert cfg.train_cfg == loop
    # What is validated is what tools/test.py tests, and every data set lies below data_root.
    assert cfg.test_dataloader == cfg.val_dataloader
    assert cfg.test_evaluator == cfg.val_evaluator
    roots = {cfg[f"{split}_dataloader"].dataset.data_root for split in ("train", "val")}
    assert roots == {cfg.data_root}
    if name.startswith("detection"):
        annotations = cfg.val_dataloader.dataset.ann_file
        assert cfg.val_evaluator.ann_file == f"{cfg.data_root}/{annotations}"
    assert (cfg.model.backbone.frozen_stages, cfg.model.backbone.norm_eval) == (-1, False)
    if name in SMALL:
        rates = learning_rates(cfg, LINEAR)[:, 0]
        assert rates.max() == pytest.approx(cfg.base_lr, rel=0.01)
        assert 0 <= rates[-1] < cfg.base_lr / 500
        assert cfg.param_scheduler[-1].end == cfg.max_iters


@pytest.mark.parametrize(
    "name", [f"benchmarks/{MASK_RCNN}", f"benchmarks/{MASK_RCNN_LONG}", "_base_/finetune_detect"]
)
def test_processes_wait_for_the_scores_of_40504_images(name):
    """The first process computes them in 15 ms of CPU time each."""
    cfg = Config.fromfile(ROOT / "configs" / f"{name}.py")
    assert cfg.env_cfg.dist_cfg.timeout > 2 * 40_504 * 0.0153
    assert cfg.env_cfg.dist_cfg.backend == "nccl"


MASK_RCNN_SCHEDULES = [
    (MASK_RCNN, 15_000, [10_000, 13_333]),
    (MASK_RCNN_LONG, 90_000, [60_000, 80_000]),
]


@pytest.mark.parametrize("name", [MASK_RCNN, MASK_RCNN_LONG])
def test_mask_rcnn_protocol(name):
    """Section 4 of the method's notes; the short side and the warm-up are detectron2's."""
    cfg = load(name)
    assert cfg.optim_wrapper.optimizer == {**SGD, "lr": 0.02, "weight_decay": 1e-4}
    assert cfg.train_dataloader.batch_size * 8 == 16
    assert cfg.auto_scale_lr == {"enable": False, "base_batch_size": 16}

    train = cfg.train_dataloader.dataset
    val = cfg.val_dataloader.dataset
    for split, part in (("train2014", train), ("val2014", val)):
        assert part.ann_file == f"annotations/instances_{split}.json"
        assert part.data_prefix == {"img": f"{split}/"}
    resize, flip = train.pipeline[2:4]
    assert resize.scales == [(1333, short) for short in range(640, 801, 32)]
    assert flip == {"type": "RandomFlip", "prob": 0.5}
    assert val.pipeline[1].scale == (1333, 800)
    assert resize.keep_ratio is val.pipeline[1].keep_ratio is True

    expected = {"bgr_to_rgb": True, "pad_mask": True, "pad_size_divisor": 32}
    expected |= {"mean": [123.675, 116.28, 103.53], "std": [58.395, 57.12, 57.375]}
    assert expected.items() <= dict(cfg.model.data_preprocessor).items()
    assert (cfg.val_evaluator.type, cfg.val_evaluator.metric) == ("CocoMetric", ["bbox", "segm"])


@pytest.mark.parametrize(("name", "max_iters", "milestones"), MASK_RCNN_SCHEDULES)
def test_learning_rates_of_mask_rcnn(name, max_iters, milestones):
    iteration = np.arange(max_iters)
    warmup = 0.001 + (1 - 0.001) * np.minimum(iteration, 999) / 999
    tenths = sum((iteration >= milestone).astype(int) for milestone in milestones)
    rates = 0.02 * warmup * 0.1**tenths
    np.testing.assert_allclose(learning_rates(load(name), LINEAR), rates[:, None], rtol=1e-6)


def test_fcn_protocol():
    """Section 4 of the method's notes; scaling and distortion are mmseg's for VOC."""
    cfg = load(FCN)
    assert cfg.optim_wrapper.optimizer == {**SGD, "lr": 0.01, "weight_decay": 5e-4}
    assert cfg.train_cfg.max_iters == cfg.param_scheduler[0].end == 20_000
    assert cfg.train_dataloader.batch_size * 2 == 16
    assert cfg.auto_scale_lr == {"enable": False, "base_batch_size": 16}
    assert cfg.data_root == "data/VOCdevkit/VOC2012"
    assert (cfg.val_evaluator.type, cfg.val_evaluator.iou_metrics) == ("IoUMetric", ["mIoU"])


def test_data_of_fcn():
    cfg = load(FCN)
    train = cfg.train_dataloader.dataset
    val = cfg.val_dataloader.dataset
    for part, name, aug in ((train, "train_aug", "Aug"), (val, "val", "")):
        assert part.ann_file == f"ImageSets/Segmentation/{name}.txt"
        assert part.data_prefix.seg_map_path == f"SegmentationClass{aug}"
    assert train.pipeline[5].type == "PhotoMetricDistortion"
    resize, crop, flip = train.pipeline[2:5]
    assert (resize.scale, resize.ratio_range) == ((2048, 512), (0.5, 2.0))
    assert (crop.crop_size, crop.cat_max_ratio, flip.prob) == ((512, 512), 0.75, 0.5)
    assert cfg.model.data_preprocessor.size == (512, 512)
    assert val.pipeline[1].scale == (2048, 512)


def test_heads_of_fcn():
    cfg = load(FCN)
    for name, index, weight in (("decode_head", 3, 1.0), ("auxiliary_head", 2, 0.4)):
        head = cfg.model[name]
        assert (head.type, head.in_index, head.num_classes) == ("FCNHead", index, 21)
        assert head.loss_decode.loss_weight == weight
    assert cfg.model.test_cfg == {"mode": "whole"}


def test_learning_rates_of_fcn():
    left = 1 - np.arange(20_000) / 19_999
    rates = (0.01 - 1e-4) * left**0.9 + 1e-4
    np.testing.assert_allclose(learning_rates(load(FCN), LINEAR), rates[:, None], rtol=1e-6)


def built(name):
    """A model; a file of torchvision's names fills all of its backbone, and nothing is frozen."""
    cfg = load(name)
    with DefaultScope.overwrite_default_scope(cfg.default_scope):
        model = MODELS.build(cfg.model)
    found = model.backbone.load_state_dict(resnet50().state_dict(), strict=False)
    assert (found.missing_keys, found.unexpected_keys) == ([], ["fc.weight", "fc.bias"])
    model.train()
    assert all(parameter.requires_grad for parameter in model.parameters())
    norms = [module for module in model.modules() if isinstance(module, BATCH_NORMS)]
    assert all(isinstance(norm, torch.nn.SyncBatchNorm) and norm.training for norm in norms)
    return model


def num_norms(module):
    return sum(isinstance(part, BATCH_NORMS) for part in module.modules())


@pytest.mark.full
def test_mask_rcnn_trains_every_parameter():
    model = built(MASK_RCNN)
    assert load(MASK_RCNN_LONG).model == load(MASK_RCNN).model
    box_head = model.roi_head.bbox_head
    mask_head = model.roi_head.mask_head
    assert type(box_head).__name__ == "Shared4Conv1FCBBoxHead"
    assert (len(box_head.shared_convs), len(box_head.shared_fcs)) == (4, 1)
    assert len(mask_head.convs) == 4
    # 53 convolutions; 4 lateral and 4 output ones; 4 in each head.
    parts = (model.backbone, model.neck, box_head, mask_head)
    assert [num_norms(part) for part in parts] == [53, 8, 4, 4]
    assert (box_head.num_classes, mask_head.num_classes) == (80, 80)


@pytest.fixture(scope="module")
def fcn():
    return built(FCN)


@pytest.mark.full
def test_fcn_trains_every_parameter(fcn):
    # Two convolutions and the one after the concatenation; one.
    assert (num_norms(fcn.decode_head), num_norms(fcn.auxiliary_head)) == (3, 1)


@pytest.mark.full
def test_fcn_dilates_its_last_stages(fcn):
    backbone = revert_sync_batchnorm(fcn.backbone)
    stages = [getattr(backbone, name) for name in backbone.res_layers]
    # contract_dilation: the first block of a dilated stage has half of its dilation.
    dilations = [block.conv2.dilation[0] for block in chain(*stages)]
    assert dilations == [1] * 3 + [1] * 4 + [1] + [2] * 5 + [2, 4, 4]
    assert [len(stage) for stage in stages] == [3, 4, 6, 3]
    with torch.no_grad():
        features = backbone(torch.zeros(2, 3, 64, 64))
    shapes = [(2, 256, 16, 16), (2, 512, 8, 8), (2, 1024, 8, 8), (2, 2048, 8, 8)]
    assert [feature.shape for feature in features] == shapes


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in SMALL if name.endswith("_scenes")])
def test_scenes_reach_every_backbone_parameter(name, tmp_path):
    generate_scenes(tmp_path / "s", num_train=8, num_val=2, size_px=96, progress=False)
    cfg = load(name)
    is_detection = name.startswith("detection")
    folder = tmp_path / "s" / ("coco" if is_detection else "voc/VOC2007")
    cfg.train_dataloader.dataset.data_root = str(folder)

    with DefaultScope.overwrite_default_scope(cfg.default_scope):
        torch.manual_seed(0)
        loader = Runner.build_dataloader(cfg.train_dataloader, seed=0)
        model = MODELS.build(cfg.model)
        model.init_weights()
    model = revert_sync_batchnorm(model)
    classes = loader.dataset.metainfo["classes"]
    batch = next(iter(loader))

    if is_detection:
        assert tuple(classes) == SCENE_CATEGORIES
        assert loader.dataset.cat2label == {c + 1: c for c in range(24)}
        heads = (model.roi_head.bbox_head, model.roi_head.mask_head)
        assert [head.num_classes for head in heads] == [24, 24]
    else:
        assert tuple(classes) == ("background", *SCENE_CATEGORIES)
        assert model.decode_head.num_classes == 25
        values = torch.cat([s.gt_sem_seg.data.unique() for s in batch["data_samples"]])
        assert (values.min(), 1 < values.max() <= 24) == (0, True)

    data = model.data_preprocessor(batch, training=True)
    assert tuple(data["inputs"].shape) == (cfg.batch_size, 3, 96, 96)
    loss, _ = model.parse_losses(model(**data, mode="loss"))
    loss.backward()
    assert torch.isfinite(loss)
    assert [name for name, p in model.backbone.named_parameters() if p.grad is None] == []
