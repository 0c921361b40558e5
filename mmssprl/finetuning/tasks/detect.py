"""Detect objects: boxes, and masks if all labels have them.

Legend: N objects of an image, best first.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from mmengine.config import Config
from numpy.typing import NDArray
from pycocotools import mask as run_lengths
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from ...datasets.labels import LabelledData, LabelledImage
from ...datasets.labels.label_maps import draw_mask
from ...system.outputs import write_whole
from .task import Scores, Task, ValScore, steps_of

_SURE = 0.3
"""From this score on an object is drawn; the files have all."""
_ASPECT = 5 / 3
"""Longer side at most / shorter side."""


class Prediction(NamedTuple):
    """Width and height of an image, and the objects found in it.

    They are COCO's annotations, best first, without ids: of crowds none, with a ``score``.
    """

    size: tuple[int, int]
    objects: list[dict[str, Any]]


class Detect(Task):
    """The objects of each image; the fact ``masks`` says whether each has a mask, too."""

    name = "detect"
    scope = "mmdet"
    batch_size = 4
    val_score = ValScore("coco/bbox_mAP", "box AP", 100.0)

    @staticmethod
    def facts_of(data: LabelledData) -> dict[str, bool]:
        """Return whether all objects have masks."""
        return {"masks": data.has_masks}

    def configure(self, cfg: Config, image_px: int) -> None:
        """Set the classes, the size of the images, and take the mask head away."""
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
        objects = [
            {
                "category_id": label + 1,
                "bbox": [round(x, 2) for x in (left, top, right - left, bottom - top)],
                "area": round((right - left) * (bottom - top), 2),
                "iscrowd": 0,
                "score": round(score, 5),
            }
            for label, score, (left, top, right, bottom) in zip(
                found.labels.tolist(), found.scores.tolist(), found.bboxes.tolist(), strict=True
            )
        ]
        if self.facts["masks"]:
            # (H, W, N), of the image's size; pycocotools counts down the columns.
            bits = np.asfortranarray(found.masks.numpy().transpose(1, 2, 0).astype(np.uint8))
            for thing, code in zip(objects, run_lengths.encode(bits), strict=True):
                thing["segmentation"] = {"size": code["size"], "counts": code["counts"].decode()}
        return Prediction((width, height), objects)

    def score(
        self, images: Sequence[LabelledImage], predictions: Sequence[Prediction], labels: Path
    ) -> Scores:
        """Return COCO's AP of boxes, and of masks if there are any."""
        truth, found = COCO(str(labels)), COCO()
        found.dataset = {**truth.dataset, "annotations": _numbered(predictions)}
        found.createIndex()
        kinds = {"box": "bbox", "mask": "segm"} if self.facts["masks"] else {"box": "bbox"}
        total: dict[str, float | None] = {}
        heads, columns = [], []
        for title, kind in kinds.items():
            ap, ap50, ap75, *of_classes = _evaluate(truth, found, kind)
            total |= {f"{title} AP": ap, f"{title} AP50": ap50, f"{title} AP75": ap75}
            heads += [f"{title} AP %", f"{title} AP50 %"]
            columns += of_classes
        per_class = [list(row) for row in zip(*columns, strict=True)]
        known = {name: value for name, value in total.items() if value is not None}
        return Scores(known, heads, per_class)

    def draw(
        self, picture: NDArray[np.uint8], sample: Any, labels: LabelledImage | None = None
    ) -> NDArray[np.uint8]:
        """Draw the objects that are sure, or else the best one; crowds are left out."""
        from mmdet.visualization import DetLocalVisualizer

        sample = sample.cpu()
        if labels is not None:
            sample.gt_instances = self._instances(labels)
        best = max(sample.pred_instances.scores.tolist(), default=0.0)
        visualizer = DetLocalVisualizer()
        visualizer.dataset_meta = {"classes": self.classes, "palette": None}
        sure = min(_SURE, 0.999 * best)
        visualizer.add_datasample(
            "", picture, sample, draw_gt=labels is not None, pred_score_thr=sure
        )
        return visualizer.get_image()

    def write(
        self, out: Path, names: Sequence[str], predictions: Sequence[Prediction]
    ) -> list[str]:
        """Write COCO's annotation file, each annotation with its score."""
        content = {
            "info": {"description": "by mmssprl"},
            "images": [
                {"id": number, "file_name": name, "width": each.size[0], "height": each.size[1]}
                for number, (name, each) in enumerate(zip(names, predictions, strict=True), 1)
            ],
            "categories": [{"id": k, "name": name} for k, name in enumerate(self.classes, 1)],
            "annotations": _numbered(predictions),
        }
        path = out / "predictions.json"
        write_whole(path, json.dumps(content))
        return [f"{len(content['annotations'])} objects: {path}"]

    def _instances(self, labels: LabelledImage) -> Any:
        from mmengine.structures import InstanceData

        things = [thing for thing in labels.objects if not thing.is_crowd]
        boxes = [thing.box or (0.0, 0.0, 0.0, 0.0) for thing in things]
        corners = [(x, y, x + width, y + height) for x, y, width, height in boxes]
        found = InstanceData(
            bboxes=torch.tensor(corners).reshape(-1, 4),
            labels=torch.tensor([thing.label for thing in things], dtype=torch.long),
        )
        if things and self.facts["masks"]:
            masks = [draw_mask(thing.segmentation, *labels.size) for thing in things]
            found.masks = torch.from_numpy(np.stack(masks))
        return found


def _numbered(predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    """Return the annotations of all images; COCO's numbers begin with 1."""
    entries = [
        {"image_id": number, **thing}
        for number, prediction in enumerate(predictions, 1)
        for thing in prediction.objects
    ]
    return [{"id": number, **entry} for number, entry in enumerate(entries, 1)]


def _evaluate(truth: COCO, found: COCO, kind: str) -> tuple[Any, ...]:
    """Return AP, AP50, AP75 in percent, and the first two of each class, None without objects."""
    evaluation = COCOeval(truth, found, kind)
    evaluation.evaluate()
    evaluation.accumulate()
    # (thresholds, recalls, classes, areas, numbers of objects), -1 without objects
    precision = evaluation.eval["precision"][:, :, :, 0, -1]
    each = [_percent(precision[:, :, k]) for k in range(precision.shape[2])]
    each50 = [_percent(precision[0, :, k]) for k in range(precision.shape[2])]
    of_75 = int(np.flatnonzero(np.isclose(evaluation.params.iouThrs, 0.75))[0])
    parts = (precision, precision[0], precision[of_75])
    return *map(_percent, parts), each, each50


def _percent(precision: NDArray[np.float64]) -> float | None:
    known = precision[precision > -1]
    return 100 * float(known.mean()) if known.size else None
