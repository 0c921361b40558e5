"""Classify images, with one or several labels each."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.evaluator import BaseMetric
from numpy.typing import NDArray

from ...datasets.labels import LabelledData
from ...datasets.multi_label import ABSENT
from ...drawing.named_boxes import captioned
from ...drawing.style import INK, WRONG
from ...probing.measures import mean_average_precision
from ...system.outputs import whole_file
from .task import Scores, Task, ValScore, resized

_RESIZE_RATIO = 256 / 224
"""Shorter side before the centre crop / side of the crop, as in the transfer protocols."""
_NUM_BEST = 3
"""Classes that a picture shows."""


class Classify(Task):
    """Scores (K,) in [0, 1] of each image, which sum to 1 with the fact ``single_label``."""

    name = "classify"
    scope = "mmssprl"
    pictures_per_row = 2
    sheet_title = "labels and the classes with the best scores"

    def __init__(self, classes: Sequence[str], *, single_label: bool) -> None:
        super().__init__(classes, single_label=single_label)
        names = ("accuracy/top1", "accuracy") if single_label else ("multi-label/mAP", "mAP")
        self.val_score = ValScore(*names)

    @staticmethod
    def facts_of(data: LabelledData) -> dict[str, bool]:
        """Return whether there is one label per image."""
        return {"single_label": data.is_single_label}

    def configure(self, cfg: Config, image_px: int) -> None:
        """Set the head, the loss and the crops."""
        one = cfg.pop("of_one_label")
        many = cfg.pop("of_many_labels")
        kind = one if self.facts["single_label"] else many
        in_channels = cfg.model.head.in_channels
        if self.facts["single_label"]:
            cfg.model.head = one.head
            cfg.val_evaluator = cfg.test_evaluator = one.evaluator
        cfg.model.head.update(num_classes=len(self.classes), in_channels=in_channels)
        for split in ("train", "val", "test"):
            loader = cfg[f"{split}_dataloader"]
            loader.dataset.update(kind.dataset)
            pipeline = loader.dataset.pipeline
            if split == "train":
                pipeline[1].scale = image_px
            else:
                pipeline[1].scale = round(image_px * _RESIZE_RATIO)
                pipeline[2].crop_size = image_px
                first, *rest = pipeline
                loader.dataset.pipeline = [first, {"type": "mmssprl.CutEnds"}, *rest]

    def read(self, sample: Any) -> NDArray[np.float32]:
        """Return the scores (K,)."""
        return sample.pred_score.cpu().numpy().astype(np.float32)

    def metrics(self, labels: Path) -> list[dict[str, Any]]:
        """Return mmpretrain's confusion matrix, or mAP as in the multi-label protocols."""
        return [{"type": "ConfusionMatrix" if self.facts["single_label"] else "MultiLabelMAP"}]

    def score(self, metrics: Sequence[BaseMetric]) -> Scores:
        """Return accuracy and the recall of each class, or mAP and AP."""
        (metric,) = metrics
        if self.facts["single_label"]:
            found = metric.evaluate(len(metric.results))["confusion_matrix/result"]
            right = found.diagonal()
            of_class = found.sum(1)
            each = [
                100 * (r / n).item() if n else None for r, n in zip(right, of_class, strict=True)
            ]
            total = {"accuracy": 100 * (right.sum() / of_class.sum()).item()}
            return Scores(total, ["accuracy %"], [[x] for x in each], found.tolist())

        scores, truth = (torch.stack(column) for column in zip(*metric.results, strict=True))
        mean, areas = mean_average_precision(scores, truth)
        each = [None if np.isnan(area) else 100 * float(area) for area in areas]
        return Scores({"mAP": 100 * mean}, ["AP %"], [[x] for x in each])

    def draw(self, picture: NDArray[np.uint8], sample: Any) -> NDArray[np.uint8]:
        """Write the labels and the classes with the best scores above the picture."""
        scores = sample.pred_score.tolist()
        best = sorted(range(len(scores)), key=lambda index: -scores[index])[:_NUM_BEST]
        found = ", ".join(f"{self.classes[index]} {scores[index]:.2f}" for index in best)
        lines = [(f"found: {found}", INK)]
        if "gt_label" in sample:
            labels = sample.gt_label.tolist()
            names = ", ".join(self.classes[index] for index in labels)
            is_wrong = best[0] not in labels
            if "gt_score" in sample:  # of several labels, some of them unknown
                is_wrong = bool(sample.gt_score[best[0]] == ABSENT)
            colour = WRONG if is_wrong else INK
            lines = [(f"labels: {names or 'none'}", INK), (f"found: {found}", colour)]
        return captioned(resized(picture), lines)

    def write(
        self,
        out: Path,
        names: Sequence[str],
        predictions: Iterable[tuple[str, NDArray[np.float32]]],
    ) -> list[str]:
        """Write a CSV with the best class and all scores of each image."""
        path = out / "scores.csv"
        with whole_file(path) as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["image", "best", *map(_column, self.classes)])
            for name, scores in predictions:
                best = self.classes[int(scores.argmax())]
                table.writerow([name, best, *(f"{score:.4f}" for score in scores)])
        return [f"scores of {len(self.classes)} classes: {path}"]


def _column(name: str) -> str:
    """Return the head of a class's scores; readers by heads would lose one of two equal ones."""
    return f"{name} (class)" if name in ("image", "best") else name
