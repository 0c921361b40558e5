"""The label files of a run, as its data sets and metrics read them."""

import json

import numpy as np
import pytest
import torch
from helpers.datasets.labelled_folders import (
    HEIGHT,
    WIDTH,
    box_of,
    write_coco,
    write_masks,
    write_voc,
    write_yolo,
)
from mmengine.config import Config
from mmengine.evaluator import Evaluator
from mmengine.registry import DefaultScope
from mmengine.structures import InstanceData

from mmssprl.config.shipped import shipped
from mmssprl.datasets.labels import find_labels
from mmssprl.finetuning.config import finetune_config, set_label_files
from mmssprl.finetuning.label_files import write_labels
from mmssprl.finetuning.options import FinetuneOptions
from mmssprl.finetuning.tasks import TASKS
from mmssprl.probing import find_probe_data
from mmssprl.registry import DATASETS as OWN_DATASETS


def with_bare_crowds(root):
    """COCO with masks, but each disc next to a square is a crowd with a box alone."""
    write_coco(root, num_train=6, num_val=3)
    for path in root.glob("*/*.json"):
        content = json.loads(path.read_text())
        for annotation in content["annotations"]:
            if annotation["image_id"] % 3 == 2 and annotation["category_id"] == 9:
                annotation["iscrowd"] = 1
                annotation.pop("segmentation")
        path.write_text(json.dumps(content))
    return root


@pytest.fixture
def bare_crowds(tmp_path):
    """Task, labels and config of a detector with masks, with crowds that have only boxes."""
    data = find_labels(with_bare_crowds(tmp_path / "data"), "detect")
    cfg = Config.fromfile(shipped("configs/_base_/finetune_detect_light.py"))
    task = TASKS["detect"](data.classes, **TASKS["detect"].facts_of(data))
    task.configure(cfg, 64)
    cfg.finetuning = {"data_root": str(data.root)}
    write_labels(data, tmp_path / "labels", "detect")
    set_label_files(cfg, tmp_path / "labels")
    return task, data, cfg


def write_difficult(root):
    """VOC where the first image and the last one show difficult objects, next to others or not."""
    write_voc(root, num_images=8, num_val=4)
    for name in ("img_000", "img_007"):
        path = root / "Annotations" / f"{name}.xml"
        hard = "</name><difficult>1</difficult>"
        path.write_text(path.read_text().replace("</name>", hard))
    again = (root / "Annotations/img_002.xml").read_text().replace("disc", "square", 1)
    hard = again.replace("</name>", "</name><difficult>1</difficult>", 1)
    (root / "Annotations/img_002.xml").write_text(hard)
    return root


@pytest.mark.parametrize("write", [write_difficult, write_coco, write_yolo, write_masks])
def test_a_classifier_is_trained_and_scored_on_the_labels_of_probe(write, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    root = write(tmp_path / "data")
    data = find_labels(root, "classify")
    cfg, _ = finetune_config("random", data, "classify", FinetuneOptions(image_px=32))
    write_labels(data, tmp_path / "labels", "classify")
    set_label_files(cfg, tmp_path / "labels")
    probed = find_probe_data(root)
    has_unknown = False
    for split, expected in (("train", probed.train), ("val", probed.test), ("test", probed.test)):
        dataset = OWN_DATASETS.build(cfg[f"{split}_dataloader"].dataset)
        samples = [dataset[index]["data_samples"] for index in range(len(dataset))]
        assert [sample.img_path for sample in samples] == expected.paths
        scores = torch.stack([sample.gt_score for sample in samples])
        assert torch.equal(scores, expected.labels.float())
        has_unknown |= bool((scores < 0).any())
        of_split = split.replace("test", "val")
        shown = (expected.labels == 1).sum(0).tolist()
        assert cfg.finetuning.of_class[of_split] == shown
    assert has_unknown == (write is write_difficult)


@pytest.mark.full
def test_a_crowd_without_a_mask_is_ignored_in_its_box_by_the_data_set(bare_crowds):
    from mmdet.registry import DATASETS
    from mmdet.utils import register_all_modules

    register_all_modules(init_default_scope=False)
    task, data, cfg = bare_crowds
    assert task.facts == {"masks": True}
    with DefaultScope.overwrite_default_scope("mmdet"):
        dataset = DATASETS.build(cfg.test_dataloader.dataset)
        items = [dataset[index]["data_samples"] for index in range(len(dataset))]
    own = [len(item.gt_instances) for item in items]
    ignored = [len(item.ignored_instances) for item in items]
    assert (own, ignored) == ([1, 1, 1], [0, 0, 1])
    left, top, width, height = box_of(8, 0)
    mask = items[2].ignored_instances.masks.masks[0]
    assert mask.sum() == width * height
    assert mask[top : top + height, left : left + width].all()


@pytest.mark.full
def test_a_crowd_without_a_mask_is_ignored_by_the_score_of_masks(bare_crowds, tmp_path):
    from mmdet.structures import DetDataSample

    task, data, _ = bare_crowds
    samples = []
    for number, image in enumerate(data.val, start=1):
        masks = np.zeros((len(image.objects), HEIGHT, WIDTH), bool)
        boxes = []
        for thing, mask in zip(image.objects, masks, strict=True):
            left, top, width, height = map(round, thing.box)
            mask[top : top + height, left : left + width] = True
            boxes.append([left, top, left + width, top + height])
        found = InstanceData(
            bboxes=torch.tensor(boxes, dtype=torch.float32),
            labels=torch.tensor([thing.label for thing in image.objects]),
            scores=torch.tensor([0.9 if thing.is_crowd else 0.5 for thing in image.objects]),
            masks=torch.from_numpy(masks),
        )
        about = {"ori_shape": (HEIGHT, WIDTH), "img_id": number}
        samples.append(DetDataSample(pred_instances=found, metainfo=about))

    with DefaultScope.overwrite_default_scope("mmdet"):
        evaluator = Evaluator(task.metrics(tmp_path / "labels" / "val.json"))
    evaluator.dataset_meta = {"classes": task.classes}
    evaluator.process(samples)
    scores = task.score(evaluator.metrics)
    # The surest disc fills the crowd: no false alarm, or the AP of discs were 50.
    assert scores.per_class == [[pytest.approx(100)] * 2] * 2
