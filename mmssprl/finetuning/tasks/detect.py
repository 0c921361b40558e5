"""Detect objects: boxes, and masks if all labels have them.

Legend: N objects of an image, best first.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config
from numpy.typing import NDArray
from PIL import Image
from pycocotools import mask as run_lengths
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from ...datasets.labels import LabelledData, LabelledImage
from ...system.outputs import write_whole
from ..drawing import draw_boxes, overlay
from ..pictures import caption
from .task import Scores, Task

_MOST_PER_IMAGE = 100
_SURE = 0.3
"""From this score on an object is drawn and counts as found; the files have all."""
_ASPECT = 5 / 3
"""Longer side at most / shorter side."""


@dataclass(frozen=True)
class Detections:
    """The objects found in an image.

    Args:
        boxes: (N, 4), left, top, right and bottom in pixels.
        scores: (N,) in [0, 1].
        labels: (N,) class indices.
        masks: N run lengths of COCO, as text; None without masks.
        size: Width and height of the image.
    """

    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    labels: NDArray[np.int64]
    masks: list[dict[str, Any]] | None
    size: tuple[int, int]


class Detect(Task):
    """Objects of each image.

    Args:
        classes: As in ``Task``.
        masks: Whether each object has a mask, too.
    """

    name = "detect"
    scope = "mmdet"
    batch_size = 4

    def __init__(self, classes: Sequence[str], *, masks: bool) -> None:
        super().__init__(classes)
        self.masks = masks

    @staticmethod
    def base_config(*, on_gpu: bool) -> str:
        """Return the shipped config, with lighter heads on a CPU."""
        return f"configs/_base_/finetune_detect{'' if on_gpu else '_light'}.py"

    @staticmethod
    def trained(images: Sequence[LabelledImage]) -> Sequence[LabelledImage]:
        """Return the images with an object that is no crowd: mmdet leaves out the others."""
        return [i for i in images if any(not thing.is_crowd for thing in i.objects)]

    @property
    def facts(self) -> dict[str, bool]:
        """Whether there are masks."""
        return {"masks": self.masks}

    @staticmethod
    def facts_of(data: LabelledData) -> dict[str, bool]:
        """Return whether all objects have masks."""
        return {"masks": data.has_masks}

    def configure(self, cfg: Config, *, image_px: int, freeze: bool) -> None:
        """Set the classes, the size of the images, and take the mask head away."""
        heads = cfg.model.roi_head
        heads.bbox_head.num_classes = heads.mask_head.num_classes = len(self.classes)
        if not self.masks:
            cfg.model.type = "FasterRCNN"
            heads.mask_head = heads.mask_roi_extractor = None
        if freeze:
            cfg.model.backbone.frozen_stages = cfg.model.backbone.get("num_stages", 4)
            cfg.model.backbone.norm_eval = True
        scale = (round(_ASPECT * image_px), image_px)
        for split in ("train", "val", "test"):
            dataset = cfg[f"{split}_dataloader"].dataset
            dataset.metainfo = {"classes": self.classes}
            for step in dataset.pipeline:
                if step.type in ("Resize", "RandomResize"):
                    step.scale = scale
                if step.type == "LoadAnnotations":
                    step.with_mask = self.masks
        for evaluator in (cfg.val_evaluator, cfg.test_evaluator):
            evaluator.metric = ["bbox", "segm"] if self.masks else ["bbox"]

    def read(self, sample: Any) -> Detections:
        """Return the objects, best first."""
        found = sample.pred_instances.cpu()
        masks = None
        if self.masks:
            # (N, H, W), of the image's size; pycocotools counts down the columns.
            bits = np.asfortranarray(found.masks.numpy().transpose(1, 2, 0).astype(np.uint8))
            masks = [
                {"size": code["size"], "counts": code["counts"].decode()}
                for code in run_lengths.encode(bits)
            ]
        height, width = sample.ori_shape[:2]
        return Detections(
            found.bboxes.numpy(), found.scores.numpy(), found.labels.numpy(), masks, (width, height)
        )

    def score(self, images: Sequence[LabelledImage], predictions: Sequence[Detections]) -> Scores:
        """Return COCO's AP of boxes, and of masks if there are any."""
        names = [image.path for image in images]
        truth = COCO()
        content = self._content(names, [image.size for image in images])
        content["annotations"] = self._truth(images)
        found = self._annotations(predictions)
        truth.dataset = content
        truth.createIndex()
        kinds = {"box": "bbox", "mask": "segm"} if self.masks else {"box": "bbox"}
        results = {title: _evaluate(truth, found, kind) for title, kind in kinds.items()}
        total, heads, columns = {}, [], []
        for title, (ap, ap50, ap75, each, each50) in results.items():
            total.update(
                {f"{title} AP": ap, f"{title} AP50": ap50, f"{title} AP75": ap75},
            )
            heads += [f"{title} AP %", f"{title} AP50 %"]
            columns += [each, each50]
        per_class = [list(row) for row in zip(*columns, strict=True)]
        return Scores(total, heads, per_class)

    def draw_truth(self, picture: Image.Image, image: LabelledImage) -> Image.Image:
        """Draw the labelled objects; crowds are left out."""
        things = [thing for thing in image.objects if not thing.is_crowd]
        labels = [thing.label for thing in things]
        if self.masks:
            bits = [_decode(thing.segmentation, image.size) for thing in things]
            picture = overlay(picture, zip(bits, labels, strict=True))
        boxes = [
            (box[0], box[1], box[0] + box[2], box[1] + box[3])
            for box in (thing.box or (0, 0, 0, 0) for thing in things)
        ]
        texts = [self.classes[label] for label in labels]
        return draw_boxes(picture, image.size, boxes, labels, texts)

    def draw(self, picture: Image.Image, prediction: Detections) -> Image.Image:
        """Draw the objects that are found with some confidence, or else the best one."""
        drawn = np.flatnonzero(prediction.scores >= _SURE)
        lines = []
        if not len(drawn):
            lines = [f"(no object scores {100 * _SURE:.0f} % or more)"]
            drawn = np.argsort(-prediction.scores)[:1]
        labels = prediction.labels[drawn].tolist()
        if prediction.masks is not None:
            bits = [run_lengths.decode(prediction.masks[i]) for i in drawn]
            picture = overlay(picture, zip(bits, labels, strict=True))
        texts = [
            f"{self.classes[label]} {100 * score:.0f} %"
            for label, score in zip(labels, prediction.scores[drawn], strict=True)
        ]
        boxes = [tuple(box) for box in prediction.boxes[drawn].tolist()]
        picture = draw_boxes(picture, prediction.size, boxes, labels, texts)
        return caption(picture, lines)

    def write(
        self, out: Path, names: Sequence[str], predictions: Sequence[Detections]
    ) -> list[str]:
        """Write COCO's annotation file, each annotation with its score."""
        content = self._content(names, [prediction.size for prediction in predictions])
        content["annotations"] = self._annotations(predictions)
        path = out / "predictions.json"
        write_whole(path, json.dumps(content))
        return [f"{len(content['annotations'])} objects: {path}"]

    def found(self, predictions: Sequence[Detections]) -> list[int]:
        """Count the images in which a class is found with some confidence."""
        counts = [0] * len(self.classes)
        for prediction in predictions:
            for label in set(prediction.labels[prediction.scores >= _SURE].tolist()):
                counts[label] += 1
        return counts

    def _content(self, names: Sequence[str], sizes: Sequence[tuple[int, int]]) -> dict[str, Any]:
        return {
            "info": {"description": "by mmssprl"},
            "images": [
                {"id": number, "file_name": name, "width": width, "height": height}
                for number, (name, (width, height)) in enumerate(
                    zip(names, sizes, strict=True), start=1
                )
            ],
            "categories": [{"id": k, "name": name} for k, name in enumerate(self.classes, start=1)],
        }

    def _annotations(self, predictions: Sequence[Detections]) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = []
        for number, found in enumerate(predictions, start=1):
            for i, (left, top, right, bottom) in enumerate(found.boxes.tolist()):
                entry = {
                    "id": len(entries) + 1,
                    "image_id": number,
                    "category_id": int(found.labels[i]) + 1,
                    "bbox": [round(x, 2) for x in (left, top, right - left, bottom - top)],
                    "area": round((right - left) * (bottom - top), 2),
                    "iscrowd": 0,
                    "score": round(float(found.scores[i]), 5),
                }
                if found.masks is not None:
                    entry["segmentation"] = found.masks[i]
                entries.append(entry)
        return entries

    def _truth(self, images: Sequence[LabelledImage]) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = []
        for number, image in enumerate(images, start=1):
            for thing in image.objects:
                box = thing.box or (0.0, 0.0, 0.0, 0.0)
                entry: dict[str, Any] = {"id": len(entries) + 1, "image_id": number}
                entry.update(category_id=thing.label + 1, iscrowd=int(thing.is_crowd))
                entry.update(bbox=list(box), area=box[2] * box[3])
                if thing.segmentation:
                    entry["segmentation"] = thing.segmentation
                entries.append(entry)
        return entries


def _evaluate(truth: COCO, found: list[dict[str, Any]], kind: str) -> tuple[Any, ...]:
    """Return AP, AP50, AP75 in percent, and the first two of each class, None without objects."""
    numbers = sorted(truth.getCatIds())
    if not found:
        shown = [bool(truth.getAnnIds(catIds=[k], iscrowd=False)) for k in numbers]
        each: list[float | None] = [0.0 if any_there else None for any_there in shown]
        return 0.0, 0.0, 0.0, each, each
    results = COCO()
    results.dataset = {**truth.dataset, "annotations": found}
    results.createIndex()
    evaluation = COCOeval(truth, results, kind)
    evaluation.evaluate()
    evaluation.accumulate()
    # (thresholds, recalls, classes, areas, numbers of objects), -1 without objects
    precision = evaluation.eval["precision"][:, :, :, 0, -1]
    each = [_percent(precision[:, :, k]) for k in range(len(numbers))]
    each50 = [_percent(precision[0, :, k]) for k in range(len(numbers))]
    of_75 = int(np.flatnonzero(np.isclose(evaluation.params.iouThrs, 0.75))[0])
    parts = (precision, precision[0], precision[of_75])
    return *(_percent(part) or 0.0 for part in parts), each, each50


def _percent(precision: NDArray[np.float64]) -> float | None:
    known = precision[precision > -1]
    return 100 * float(known.mean()) if known.size else None


def _decode(segmentation: Any, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return the mask (H, W) of polygons or run lengths."""
    width, height = size
    if isinstance(segmentation, list):
        codes = run_lengths.merge(run_lengths.frPyObjects(segmentation, height, width))
    elif isinstance(segmentation["counts"], list):
        codes = run_lengths.frPyObjects(segmentation, height, width)
    else:
        codes = segmentation
    return run_lengths.decode(codes)
