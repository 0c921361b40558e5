"""Detect objects: boxes, and masks if all labels have them.

Legend: N objects of an image, best first.
"""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import mmcv
import numpy as np
import torch
from mmengine.config import Config
from mmengine.evaluator import BaseMetric
from numpy.typing import NDArray
from pycocotools import mask as run_lengths

from ...datasets.labels import LabelledData
from ...drawing.named_boxes import Named, class_colour, draw_named
from ...system.outputs import whole_file
from .task import Scores, Task, ValScore, resized, steps_of

_ASPECT = 5 / 3
"""Largest longer side / shorter side."""
_SURE = 0.3
"""Smallest score of objects that are drawn."""
Prediction = tuple[tuple[int, int], list[dict[str, Any]]]
"""Width and height of an image, and its objects as COCO's annotations with a score, without ids."""


class Detect(Task):
    """The objects of each image; the fact ``masks`` says whether each has a mask, too."""

    name = "detect"
    scope = "mmdet"
    val_score = ValScore("coco/bbox_mAP", "box AP", 100.0)

    @staticmethod
    def facts_of(data: LabelledData) -> dict[str, bool]:
        """Return whether all objects have masks."""
        return {"masks": data.has_masks}

    def configure(self, cfg: Config, image_px: int) -> None:
        """Set the classes and the size of the images, and drop the mask head if unused."""
        heads = cfg.model.roi_head
        heads.bbox_head.num_classes = heads.mask_head.num_classes = len(self.classes)
        if not self.facts["masks"]:
            cfg.model.type = "FasterRCNN"
            heads.mask_head = heads.mask_roi_extractor = None
        for split in ("train", "val", "test"):
            cfg[f"{split}_dataloader"].dataset.metainfo = {"classes": self.classes}
        for step in steps_of(cfg):
            if step.type in ("Resize", "RandomResize"):
                step.scale = (round(_ASPECT * image_px), image_px)
            if step.type == "LoadAnnotations":
                step.with_mask = self.facts["masks"]
        for evaluator in (cfg.val_evaluator, cfg.test_evaluator):
            evaluator.metric = ["bbox", "segm"] if self.facts["masks"] else ["bbox"]

    def read(self, sample: Any) -> Prediction:
        """Return the objects, best first."""
        found = sample.pred_instances.cpu()
        height, width = sample.ori_shape[:2]
        objects = []
        for label, score, (left, top, right, bottom) in zip(
            found.labels.tolist(), found.scores.tolist(), found.bboxes.tolist(), strict=True
        ):
            box = (left, top, right - left, bottom - top)
            thing: dict[str, Any] = {
                "category_id": label + 1,
                "bbox": [round(x, 2) for x in box],
                "area": round(box[2] * box[3], 2),
                "iscrowd": 0,
                "segmentation": [],  # CVAT requires the key
                "score": round(score, 5),
            }
            objects.append(thing)

        if self.facts["masks"]:
            for thing, mask in zip(objects, found.masks.numpy(), strict=True):  # (H, W) each
                # One by one: copies of all masks of a large image take gigabytes.
                code = run_lengths.encode(np.asfortranarray(mask, np.uint8))
                thing["area"] = int(run_lengths.area(code))
                thing["segmentation"] = {"size": code["size"], "counts": code["counts"].decode()}
        return (width, height), objects

    def metrics(self, labels: Path) -> list[dict[str, Any]]:
        """Return mmdet's metric of COCO for boxes, and one for masks if there are any."""
        kinds = ["bbox", "segm"] if self.facts["masks"] else ["bbox"]
        shared = {"type": "CocoMetric", "ann_file": str(labels), "classwise": True}
        return [{**shared, "metric": kind, "prefix": kind} for kind in kinds]

    def score(self, metrics: Sequence[BaseMetric]) -> Scores:
        """Return COCO's AP of boxes, and of masks if there are any."""
        total: dict[str, float] = {}
        heads: list[str] = []
        columns: list[list[float | None]] = []
        for metric, kind in zip(metrics, ("box", "mask"), strict=False):
            found = metric.evaluate(len(metric.results))
            # mmdet gives no score if nothing was found, and -1 if val has no object.
            for name in ("AP", "AP50", "AP75"):
                key = f"{metric.prefix}/{metric.prefix}_m{name.replace('AP', 'AP_').rstrip('_')}"
                if (value := found.get(key, 0.0)) >= 0:
                    total[f"{kind} {name}"] = 100 * value
            each = [found.get(f"{metric.prefix}/{k}_precision", math.nan) for k in self.classes]
            columns.append([None if math.isnan(x) else 100 * x for x in each])
            heads.append(f"{kind} AP %")
        return Scores(total, heads, [list(row) for row in zip(*columns, strict=True)])

    def draw(self, picture: NDArray[np.uint8], sample: Any) -> NDArray[np.uint8]:
        """Draw the objects with a score above ``_SURE``."""
        size = picture.shape[:2]
        picture = resized(picture)
        found = sample.pred_instances
        is_sure = found.scores > _SURE
        groups = [self._named(found[is_sure], size, picture)]

        # Without labels mmdet sets an empty gt_instances.
        if "bboxes" in sample.get("gt_instances", ()):
            groups.insert(0, self._named(sample.gt_instances, size, picture))
        return draw_named(picture, groups)

    def _named(
        self, objects: Any, size: tuple[int, ...], picture: NDArray[np.uint8]
    ) -> list[Named]:
        """Return the objects of an image of ``size`` (H, W) for a resized picture of it."""
        height, width = picture.shape[:2]
        scales = torch.tensor([width / size[1], height / size[0]] * 2)
        boxes = (objects.bboxes.cpu() * scales).tolist()
        labels = objects.labels.tolist()
        words = [""] * len(boxes)
        if "scores" in objects:
            words = [f"{score:.2f}" for score in objects.scores.tolist()]
        masks: list[NDArray[np.bool_] | None] = [None] * len(boxes)
        if "masks" in objects:
            masks = [_resized_mask(mask, (width, height)) for mask in _bits(objects.masks)]

        named = []
        for box, label, text, mask in zip(boxes, labels, words, masks, strict=True):
            named.append(Named(tuple(box), self.classes[label], text, class_colour(label), mask))
        return named

    def write(
        self, out: Path, names: Sequence[str], predictions: Iterable[tuple[str, Prediction]]
    ) -> list[str]:
        """Write COCO's annotation file, each annotation with its score."""
        head = {
            "info": {"description": "by mmssprl"},
            "categories": [{"id": k, "name": name} for k, name in enumerate(self.classes, 1)],
        }
        images: list[dict[str, Any]] = []
        num_objects = 0
        path = out / "predictions.json"
        # Objects are the most of the file: only images are kept until its end.
        with whole_file(path) as file:
            file.write(json.dumps(head).removesuffix("}") + ', "annotations": [')
            for name, ((width, height), objects) in predictions:
                image_id = len(images) + 1
                images.append({"id": image_id, "file_name": name, "width": width, "height": height})
                for thing in objects:
                    comma = ", " if num_objects else ""
                    num_objects += 1
                    file.write(
                        comma + json.dumps({"id": num_objects, "image_id": image_id, **thing})
                    )
            file.write(f'], "images": {json.dumps(images)}}}')
        return [f"{num_objects} objects: {path}"]


def _bits(masks: Any) -> NDArray[np.uint8]:
    """Return masks (N, H, W) of predictions, a tensor, or of mmdet's labels."""
    found = masks.cpu().numpy() if isinstance(masks, torch.Tensor) else masks.to_ndarray()
    return found.astype(np.uint8)


def _resized_mask(mask: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.bool_]:
    return mmcv.imresize(mask, size, interpolation="nearest").astype(bool)
