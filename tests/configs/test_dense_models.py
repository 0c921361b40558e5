"""Detection and segmentation over mmdet and mmseg: their models, data and metrics as configured."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import DATASETS, METRICS, MODELS, TRANSFORMS, DefaultScope
from mmengine.runner import Runner
from mmengine.structures import InstanceData

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
    from torchvision.models import resnet50

    expected = {
        name: value.shape
        for name, value in resnet50().state_dict().items()
        if not name.startswith("fc.")
    }
    assert {name: value.shape for name, value in backbone.state_dict().items()} == expected


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
    assert [[block.conv2.dilation[0] for block in stage] for stage in stages] == [
        [1, 1, 1],
        [1, 1, 1, 1],
        [1, 2, 2, 2, 2, 2],
        [2, 4, 4],
    ]
    with torch.no_grad():
        features = backbone(torch.zeros(2, 3, 64, 64))
    assert [tuple(feature.shape[1:]) for feature in features] == [
        (256, 16, 16),
        (512, 8, 8),
        (1024, 8, 8),
        (2048, 8, 8),
    ]


def test_training_images_of_mask_rcnn(tmp_path):
    """A short side of 640-800 px, both sides flipped or not, masks along with the image."""
    generate_scenes(tmp_path / "s", num_train=1, num_val=1, size_px=96, progress=False)
    cfg = load(MASK_RCNN)
    folder = tmp_path / "s" / "coco"
    dataset = dict(cfg.train_dataloader.dataset, data_root=str(folder))
    dataset["metainfo"] = {"classes": SCENE_CATEGORIES}
    dataset = build(DATASETS, cfg, dataset)
    with DefaultScope.overwrite_default_scope("mmdet"):
        dataset.full_init()
    np.random.seed(0)  # noqa: NPY002  mmdet draws from the global generator
    sides, flips = set(), set()
    for _ in range(40):
        sample = dataset[0]
        side = sample["inputs"].shape[1]
        assert sample["inputs"].shape == (3, side, side)
        assert sample["data_samples"].gt_instances.masks.masks.shape[1:] == (side, side)
        sides.add(side)
        flips.add(sample["data_samples"].flip)
    assert sides == {640, 672, 704, 736, 768, 800}
    assert flips == {True, False}


def test_training_crops_of_fcn():
    cfg = load(FCN)
    steps = [
        build(TRANSFORMS, cfg, step)
        for step in cfg.train_pipeline
        if not step.type.startswith("Load")
    ]
    np.random.seed(0)  # noqa: NPY002  mmseg draws from the global generator
    labels = np.zeros((300, 400), np.uint8)
    labels[:, 200:] = 15
    for _ in range(5):
        results = {
            "img": np.full((300, 400, 3), 128, np.uint8),
            "gt_seg_map": labels.copy(),
            "seg_fields": ["gt_seg_map"],
            "img_shape": (300, 400),
        }
        for step in steps:
            results = step(results)
        crop = results["inputs"]
        # An image scaled down below the crop is padded by the preprocessor.
        assert max(crop.shape[1:]) <= 512
        assert tuple(results["data_samples"].gt_sem_seg.data.shape[1:]) == tuple(crop.shape[1:])
    model_input = build(MODELS, cfg, cfg.model.data_preprocessor)(
        {"inputs": [crop], "data_samples": [results["data_samples"]]}, training=True
    )
    assert tuple(model_input["inputs"].shape) == (1, 3, 512, 512)


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
        assert (model.roi_head.bbox_head.num_classes, model.roi_head.mask_head.num_classes) == (
            24,
            24,
        )
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


SIDE = 100  # of the images of the hand-made annotations, in px


def rectangle(width):
    """A mask of ``width`` columns, full height."""
    mask = np.zeros((SIDE, SIDE), np.uint8)
    mask[:, :width] = 1
    return mask


def detection_metrics(folder, predicted_widths):
    """One image per entry with one object of 100 x 100 px, found as 0..width, or missed (None)."""
    images = [{"id": i, "width": SIDE, "height": SIDE} for i in range(len(predicted_widths))]
    annotations = [
        {
            "id": i + 1,
            "image_id": i,
            "category_id": 1,
            "bbox": [0, 0, SIDE, SIDE],
            "area": SIDE * SIDE,
            "iscrowd": 0,
            "segmentation": [[0, 0, SIDE, 0, SIDE, SIDE, 0, SIDE]],
        }
        for i in range(len(predicted_widths))
    ]
    classes = [{"id": 1, "name": "thing"}]
    path = folder / "annotations.json"
    path.write_text(
        json.dumps({"images": images, "annotations": annotations, "categories": classes})
    )
    cfg = load(MASK_RCNN)
    metric = build(METRICS, cfg, dict(cfg.val_evaluator, ann_file=str(path)))
    metric.dataset_meta = {"classes": ("thing",)}
    for i, width in enumerate(predicted_widths):
        widths = [] if width is None else [width]
        found = InstanceData(
            bboxes=torch.tensor([[0.0, 0.0, w, SIDE] for w in widths]).reshape(-1, 4),
            scores=torch.full((len(widths),), 0.9),
            labels=torch.zeros(len(widths), dtype=torch.long),
            masks=torch.tensor(np.array([rectangle(w) for w in widths]).reshape(-1, SIDE, SIDE)),
        )
        sample = {"img_id": i, "ori_shape": (SIDE, SIDE), "pred_instances": found}
        metric.process({}, [sample])
    return metric.evaluate(size=len(predicted_widths))


@pytest.mark.parametrize(
    ("widths", "expected"),
    [
        ([100, 100], (1.0, 1.0, 1.0)),
        # Recall 1/2 at precision 1: 51 of COCO's 101 recall points.
        ([100, None], (0.505, 0.505, 0.505)),
        # IoU 0.62 passes 0.50, 0.55 and 0.60, 3 of the 10 thresholds.
        ([62, 62], (0.3, 1.0, 0.0)),
    ],
)
def test_average_precision_of_boxes_and_masks(tmp_path, widths, expected):
    metrics = detection_metrics(tmp_path, widths)
    for kind in ("bbox", "segm"):
        got = [metrics[f"coco/{kind}_{name}"] for name in ("mAP", "mAP_50", "mAP_75")]
        assert got == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize(
    ("predicted", "expected"),
    [
        # Rows are two pixels wide; the second row is void and must not count.
        ([[0, 15], [7, 7]], 100.0),
        # Background 1 of 2 pixels, person 0 of 1; classes that do not occur do not count.
        ([[0, 0], [0, 15]], 25.0),
    ],
)
def test_mean_iou(predicted, expected):
    cfg = load(FCN)
    metric = build(METRICS, cfg, cfg.val_evaluator)
    metric.dataset_meta = {"classes": [str(c) for c in range(21)]}
    truth = torch.tensor([[[0, 15], [255, 255]]])
    sample = {
        "pred_sem_seg": {"data": torch.tensor([predicted])},
        "gt_sem_seg": {"data": truth},
    }
    metric.process({}, [sample])
    assert metric.evaluate(size=1)["mIoU"] == pytest.approx(expected)
