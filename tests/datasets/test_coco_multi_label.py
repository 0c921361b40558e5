import json

import numpy as np
import pytest
import torch
from mmengine.dataset import default_collate
from mmpretrain.evaluation import AveragePrecision
from mmpretrain.models.heads import MultiLabelLinearClsHead
from PIL import Image

from mmssprl.datasets import CocoMultiLabel
from mmssprl.registry import DATASETS

# Ids neither contiguous nor sorted; the image 7 has no annotation, the image 3 a crowd.
COCO = {
    "images": [
        {"id": 9, "file_name": "c.png"},
        {"id": 3, "file_name": "a.png"},
        {"id": 7, "file_name": "b.png"},
    ],
    "annotations": [
        {"id": 1, "image_id": 9, "category_id": 90, "iscrowd": 0},
        {"id": 2, "image_id": 9, "category_id": 1, "iscrowd": 0},
        {"id": 3, "image_id": 9, "category_id": 90, "iscrowd": 0},
        {"id": 4, "image_id": 3, "category_id": 44, "iscrowd": 1},
    ],
    "categories": [
        {"id": 90, "name": "toothbrush"},
        {"id": 1, "name": "person"},
        {"id": 44, "name": "bottle"},
        {"id": 2, "name": "bicycle"},
    ],
}


@pytest.fixture
def root(tmp_path):
    (tmp_path / "images").mkdir()
    for value, name in enumerate("abc"):
        image = np.full((8, 10, 3), value, np.uint8)
        Image.fromarray(image).save(tmp_path / "images" / f"{name}.png")
    write(tmp_path, COCO)
    return tmp_path


def write(root, content):
    (root / "coco.json").write_text(content if isinstance(content, str) else json.dumps(content))


def build(root, **options):
    config = {"type": "CocoMultiLabel", "ann_file": "coco.json", "data_prefix": "images"}
    return DATASETS.build({**config, "data_root": str(root), **options})


def test_labels_are_contiguous_sorted_and_without_repeats(root):
    dataset = build(root)
    assert dataset.metainfo["classes"] == ("person", "bicycle", "bottle", "toothbrush")
    items = [dataset.get_data_info(i) for i in range(len(dataset))]
    assert [item["gt_label"] for item in items] == [[0, 3], [2], []]
    names = [str(root / "images" / name) for name in ("c.png", "a.png", "b.png")]
    assert [item["img_path"] for item in items] == names
    assert [dataset.get_cat_ids(i) for i in range(3)] == [[0, 3], [2], []]


def test_images_without_labels_pass_through_mmpretrain(root):
    pipeline = [{"type": "LoadImageFromFile"}, {"type": "PackInputs"}]
    batch = default_collate([build(root, pipeline=pipeline)[i] for i in range(3)])
    samples = batch["data_samples"]
    assert [sample.gt_label.tolist() for sample in samples] == [[0, 3], [2], []]
    assert batch["inputs"].shape == (3, 3, 8, 10)
    # Scores of 0 give ln 2 for each class, whatever the label.
    head = MultiLabelLinearClsHead(num_classes=4, in_channels=5)
    torch.nn.init.zeros_(head.fc.weight)
    torch.nn.init.zeros_(head.fc.bias)
    loss = head.loss((torch.ones(3, 5),), samples)["loss"]
    assert loss.item() == pytest.approx(4 * np.log(2), rel=1e-6)
    # Class 0 is ranked first, 3 second behind the image without labels, 2 perfectly: 1, 1/2, 1.
    scores = torch.tensor([[0.9, 0.1, 0.1, 0.5], [0.2, 0.1, 0.9, 0.2], [0.1, 0.1, 0.2, 0.8]])
    metric = AveragePrecision(average=None)
    for sample, score in zip(samples, scores, strict=True):
        metric.process(None, [{**sample.to_dict(), "pred_score": score}])
    result = metric.compute_metrics(metric.results)["AP_classwise"]
    assert [result[0], result[2], result[3]] == pytest.approx([100, 100, 50])


def test_files_that_are_missing(root):
    with pytest.raises(FileNotFoundError, match=r"ann_file must be a file.*none.json'"):
        build(root, ann_file="none.json")
    (root / "images" / "b.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"coco.json: .* but 1 of 3 do not.*images/b.png"):
        build(root)
    with pytest.raises(FileNotFoundError, match="3 of 3 do not.*correct data_root or data_prefix"):
        build(root, data_prefix="")


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"id": 8, "image_id": 9, "category_id": 12}, "annotation 8 .* but got category_id=12"),
        ({"id": 8, "image_id": 5, "category_id": 1}, "annotation 8 .* but got image_id=5"),
        ({"image_id": 9}, "image_id and category_id, but entry 4 is"),
    ],
)
def test_annotations_of_unknown_images_or_categories(root, extra, message):
    write(root, {**COCO, "annotations": [*COCO["annotations"], extra]})
    with pytest.raises(ValueError, match=message):
        build(root)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "coco.json: must be JSON, but Expecting"),
        ([], "has no list 'images'"),
        ({"images": [], "annotations": []}, "has no list 'categories'"),
        ({**COCO, "images": [{"id": 3}]}, "each entry of images must have id and file_name"),
    ],
)
def test_files_that_are_no_coco_file(root, content, message):
    write(root, content)
    with pytest.raises(ValueError, match=message):
        CocoMultiLabel(ann_file=str(root / "coco.json"))
