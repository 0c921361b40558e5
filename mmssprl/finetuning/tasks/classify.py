"""Classify images: one label each, or any number of labels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.font_manager import findfont
from mmengine.config import Config
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont, ImageOps

from ...console.tables import csv_table
from ...datasets.labels import LabelledData, LabelledImage
from ...features.linear_classifier import mean_average_precision
from ...system.outputs import write_whole
from .task import Scores, Task, ValScore

_RESIZE_RATIO = 256 / 224
"""Shorter side before the centre crop / side of the crop, as in the protocols."""
_SURE = 0.5
"""From this score on a label counts as found, where an image may have several."""


_COLOURS = ("#b3261e", "#1a7f4b")
_MARKS = ("\N{BALLOT X}", "\N{CHECK MARK}")
"""Of what is wrong, and right: whoever cannot tell red from green sees the mark."""
_GAP_PX, _FRAME_PX, _LINE_PX = 4, 8, 28
"""Between cells, of a frame, of a line of text."""


class Classify(Task):
    """Scores (K,) in [0, 1] of each image: they sum to 1 if an image has one label.

    The fact ``single_label`` says whether each image has exactly one class.
    """

    name = "classify"
    scope = "mmssprl"
    batch_size = 32
    cell_px = (400, 400)
    num_columns = 4

    @staticmethod
    def facts_of(data: LabelledData) -> dict[str, bool]:
        """Return whether there is one label per image."""
        return {"single_label": data.is_single_label}

    @property
    def val_score(self) -> ValScore:
        """Accuracy, or mAP where an image may have several labels."""
        if self.facts["single_label"]:
            return ValScore("accuracy/top1", "accuracy")
        return ValScore("multi-label/mAP", "mAP")

    def configure(self, cfg: Config, image_px: int) -> None:
        """Set the head, the loss and the crops."""
        one, many = cfg.pop("of_one_label"), cfg.pop("of_many_labels")
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

    def read(self, sample: Any) -> NDArray[np.float32]:
        """Return the scores (K,)."""
        return sample.pred_score.cpu().numpy().astype(np.float32)

    def score(
        self,
        images: Sequence[LabelledImage],
        predictions: Sequence[NDArray[np.float32]],
        labels: Path,
    ) -> Scores:
        """Return accuracy, or mAP as in the multi-label protocols."""
        scores = np.stack(predictions)  # (N, K)
        if self.facts["single_label"]:
            from mmpretrain.evaluation import ConfusionMatrix

            truth = np.array([image.label for image in images])
            right = scores.argmax(1) == truth
            each = [
                100 * float(right[truth == k].mean()) if (truth == k).any() else None
                for k in range(len(self.classes))
            ]
            matrix = ConfusionMatrix.calculate(torch.from_numpy(scores), torch.from_numpy(truth))
            return Scores(
                {"accuracy": 100 * float(right.mean())},
                ["accuracy %"],
                [[x] for x in each],
                matrix.tolist(),
            )
        truth = np.zeros(scores.shape, np.int8)
        for row, image in zip(truth, images, strict=True):
            row[list(image.labels)] = 1
        mean, areas = mean_average_precision(torch.from_numpy(scores), torch.from_numpy(truth))
        each = [None if np.isnan(area) else 100 * float(area) for area in areas]
        return Scores({"mAP": 100 * mean}, ["AP %"], [[x] for x in each])

    def draw(
        self, picture: NDArray[np.uint8], sample: Any, labels: LabelledImage | None = None
    ) -> NDArray[np.uint8]:
        """Write the classes onto the picture; where there are labels, whether the best is one."""
        if labels is not None:
            return self._judged(picture, self.read(sample), labels)
        from mmpretrain.visualization import UniversalVisualizer

        return UniversalVisualizer().visualize_cls(picture, sample, self.classes)

    def _judged(
        self, picture: NDArray[np.uint8], scores: NDArray[np.float32], labels: LabelledImage
    ) -> NDArray[np.uint8]:
        """Frame a picture in green if its best class is right, else in red, and say so below it."""
        best = int(scores.argmax())
        is_right = best in labels.labels
        text = f"{_MARKS[is_right]} {self.classes[best]} {scores[best]:.0%}"
        names = ", ".join(self.classes[k] for k in sorted(labels.labels)) or "none of the classes"
        lines = [text] if is_right else [text, f"is {names}"]
        (width, height), colour = self.cell_px, _COLOURS[is_right]
        cell = Image.new("RGB", self.cell_px, "white")
        frame = ImageDraw.Draw(cell)
        box = (_GAP_PX, _GAP_PX, width - _GAP_PX, height - _GAP_PX)
        frame.rectangle(box, outline=colour, fill=colour)
        top = height - _GAP_PX - len(lines) * _LINE_PX - _FRAME_PX
        inside = (width - 2 * (_GAP_PX + _FRAME_PX), top - _GAP_PX - 2 * _FRAME_PX)
        shown = ImageOps.pad(Image.fromarray(picture), inside, color="white")
        cell.paste(shown, (_GAP_PX + _FRAME_PX, _GAP_PX + _FRAME_PX))
        font = ImageFont.truetype(findfont("DejaVu Sans"), _LINE_PX - 8)
        for number, line in enumerate(lines):
            place = (_GAP_PX + _FRAME_PX, top + number * _LINE_PX)
            frame.text(place, line, fill="white", font=font)
        return np.asarray(cell)

    def write(
        self, out: Path, names: Sequence[str], predictions: Sequence[NDArray[np.float32]]
    ) -> list[str]:
        """Write a CSV: a row per image, with the best class and the scores of all."""
        rows = [
            [name, self.classes[int(scores.argmax())], *(f"{score:.4f}" for score in scores)]
            for name, scores in zip(names, predictions, strict=True)
        ]
        path = out / "scores.csv"
        write_whole(path, csv_table(["image", "best", *self.classes], rows))
        return [f"scores of {len(self.classes)} classes: {path}"]

    def found(self, predictions: Sequence[NDArray[np.float32]]) -> list[int]:
        """Count the images of which a class is the best, or scores at least 0.5."""
        scores = np.stack(predictions)
        if self.facts["single_label"]:
            return np.bincount(scores.argmax(1), minlength=len(self.classes)).tolist()
        return (scores >= _SURE).sum(0).tolist()
