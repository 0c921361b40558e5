"""Detection and segmentation over mmdet and mmseg: their models and data as configured."""

import json
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import DATASETS, MODELS, DefaultScope
from mmengine.runner import Runner
from torchvision.models import resnet50

from mmssprl.datasets.scenes import SCENE_CATEGORIES, generate_scenes

ROOT = Path(__file__).parents[2]
PHOTOS = ROOT.parent / "shared" / "data" / "coco128"
MASK_RCNN = "detection/mask-rcnn_resnet50-fpn_8xb2-15k_coco14"
MASK_RCNN_LONG = "detection/mask-rcnn_resnet50-fpn_8xb2-90k_coco14"
MASK_RCNN_SCENES = "detection/mask-rcnn_resnet18-fpn_scenes"
MASK_RCNN_PHOTOS = "detection/mask-rcnn_resnet18-fpn_coco128"
FCN = "segmentation/fcn_resnet50-d8_2xb8-20k_voc12aug-512x512"
FCN_SCENES = "segmentation/fcn_resnet18-d8_scenes"
BATCH_NORMS = (torch.nn.BatchNorm2d, torch.nn.SyncBatchNorm)

pytestmark = pytest.mark.full


def load(name):
    return Config.fromfile(ROOT / "configs" / "benchmarks" / f"{name}.py")


def build(registry, cfg, part):
    with DefaultScope.overwrite_default_scope(cfg.default_scope):
        return registry.build(part)


def check_backbone(backbone):
    """A backbone file of torchvision's names fills all of it."""
    state = {name: value.shape for name, value in backbone.state_dict().items()}
    expected = {name: value.shape for name, value in resnet50().state_dict().items()}
    assert state == {name: expected[name] for name in expected if not name.startswith("fc.")}


def check_nothing_is_frozen(model):
    model.train()
    assert all(parameter.requires_grad for parameter in model.parameters())
    norms = [module for module in model.modules() if isinstance(module, BATCH_NORMS)]
    assert all(isinstance(module, torch.nn.SyncBatchNorm) for module in norms)
    assert all(module.training for module in norms)


def num_norms(module):
    return sum(isinstance(part, BATCH_NORMS) for part in module.modules())


def test_mask_rcnn_trains_every_parameter():
    cfg = load(MASK_RCNN)
    model = build(MODELS, cfg, cfg.model)
    check_backbone(model.backbone)
    check_nothing_is_frozen(model)
    assert load(MASK_RCNN_LONG).model == load(MASK_RCNN).model
    box_head, mask_head = model.roi_head.bbox_head, model.roi_head.mask_head
    assert type(box_head).__name__ == "Shared4Conv1FCBBoxHead"
    assert (len(box_head.shared_convs), len(box_head.shared_fcs)) == (4, 1)
    assert len(mask_head.convs) == 4
    # 53 convolutions; 4 lateral and 4 output ones; 4 in each head.
    parts = (model.backbone, model.neck, box_head, mask_head)
    assert [num_norms(part) for part in parts] == [53, 8, 4, 4]
    assert (box_head.num_classes, mask_head.num_classes) == (80, 80)


def test_fcn_dilates_and_trains_every_parameter():
    cfg = load(FCN)
    model = build(MODELS, cfg, cfg.model)
    check_backbone(model.backbone)
    check_nothing_is_frozen(model)
    # Two convolutions and the one after the concatenation; one.
    assert (num_norms(model.decode_head), num_norms(model.auxiliary_head)) == (3, 1)
    backbone = revert_sync_batchnorm(model.backbone)
    stages = [getattr(backbone, name) for name in backbone.res_layers]
    # contract_dilation: the first block of a dilated stage has half of its dilation.
    dilations = [[block.conv2.dilation[0] for block in stage] for stage in stages]
    assert dilations == [[1] * 3, [1] * 4, [1] + [2] * 5, [2, 4, 4]]
    with torch.no_grad():
        features = backbone(torch.zeros(2, 3, 64, 64))
    shapes = [(256, 16, 16), (512, 8, 8), (1024, 8, 8), (2048, 8, 8)]
    assert [tuple(feature.shape[1:]) for feature in features] == shapes


@pytest.mark.parametrize("name", [MASK_RCNN_SCENES, FCN_SCENES])
def test_scenes_reach_every_backbone_parameter(name, tmp_path):
    generate_scenes(tmp_path / "s", num_train=8, num_val=2, size_px=96, progress=False)
    cfg = load(name)
    is_detection = name == MASK_RCNN_SCENES
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
        assert values.min() == 0
        assert 1 < values.max() <= 24
    data = model.data_preprocessor(batch, training=True)
    assert tuple(data["inputs"].shape) == (cfg.batch_size, 3, 96, 96)
    loss, _ = model.parse_losses(model(**data, mode="loss"))
    loss.backward()
    assert torch.isfinite(loss)
    without = [name for name, p in model.backbone.named_parameters() if p.grad is None]
    assert without == []


@pytest.mark.skipif(not PHOTOS.is_dir(), reason="needs ../shared/data/coco128")
def test_photos_have_the_80_classes_in_order():
    cfg = load(MASK_RCNN_PHOTOS)
    dataset = build(DATASETS, cfg, dict(cfg.val_dataloader.dataset, data_root=str(PHOTOS)))
    categories = json.loads((PHOTOS / "annotations/instances_val2014.json").read_text())
    names = [category["name"] for category in categories["categories"]]
    assert list(dataset.metainfo["classes"]) == names
    assert cfg.model.roi_head.bbox_head.num_classes == len(names) == 80
    assert len(dataset) == 100
