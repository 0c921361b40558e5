"""Segment images: a class for each pixel.

Legend: K classes, H and W height and width of an image.
"""

import io
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
from PIL import Image

from ...datasets.labels.masks import palette
from ...drawing.named_boxes import beside, legend
from ...probing.measures import shares_of_pixels
from ...system.outputs import whole_file
from .task import Scores, Task, ValScore, resized, steps_of, written_names

_MOST_ASPECT = 4
"""Largest longer side / shorter side."""


class Segment(Task):
    """A label image (H, W) uint8 of each image, as the bytes of a PNG with VOC's palette."""

    name = "segment"
    scope = "mmseg"
    val_score = ValScore("mIoU", "mIoU")

    def configure(self, cfg: Config, image_px: int) -> None:
        """Set the classes and the size of the images."""
        for head in ("decode_head", "auxiliary_head"):
            if cfg.model[head] is not None:
                cfg.model[head].num_classes = len(self.classes)
        crop = (image_px, image_px)
        cfg.model.data_preprocessor.size = crop
        for step in steps_of(cfg):
            if step.type in ("Resize", "RandomResize"):
                step.scale = (_MOST_ASPECT * image_px, image_px)
            if step.type == "RandomCrop":
                step.crop_size = crop

    def read(self, sample: Any) -> bytes:
        """Return the label image."""
        labels = sample.pred_sem_seg.data[0].cpu().numpy().astype(np.uint8)
        image = Image.fromarray(labels)
        file = io.BytesIO()
        image.putpalette(palette().tobytes())  # its pixels are indices from now on
        image.save(file, format="PNG")
        return file.getvalue()

    def metrics(self, labels: Path) -> list[dict[str, Any]]:
        """Return the metric of IoU that validations log."""
        return [{"type": "mmssprl.PixelIoU"}]

    def score(self, metrics: Sequence[BaseMetric]) -> Scores:
        """Return mIoU over the classes that labels or predictions show, as mmseg does."""
        (metric,) = metrics
        found = metric.compute_metrics(metric.results)
        total = {"mIoU": found["mIoU"], "right pixels": found["aAcc"]}
        pixels = torch.stack(metric.results).sum(dim=0)
        shares = []
        for of_class in torch.stack(shares_of_pixels(pixels), dim=1).tolist():
            shares.append([None if math.isnan(share) else 100 * share for share in of_class])
        return Scores(total, ["IoU %", "found %"], shares)

    def draw(self, picture: NDArray[np.uint8], sample: Any) -> NDArray[np.uint8]:
        """Tint each pixel by its class, and name the classes in a legend below."""
        picture = resized(picture)
        height, width = picture.shape[:2]
        colours = palette()
        drawn = []
        shown: set[int] = set()
        for kind in ("gt", "pred"):
            if f"{kind}_sem_seg" in sample:
                labels = sample.get(f"{kind}_sem_seg").data[0].cpu().numpy().astype(np.uint8)
                labels = mmcv.imresize(labels, (width, height), interpolation="nearest")
                is_class = labels < len(self.classes)  # ignored pixels stay as they are
                tinted = picture.copy()
                tinted[is_class] = picture[is_class] // 2 + colours[labels[is_class]] // 2
                drawn.append(tinted)
                shown.update(np.unique(labels[is_class]).tolist())

        joined = beside(drawn)
        names = {self.classes[index]: tuple(colours[index].tolist()) for index in sorted(shown)}
        return np.concatenate([joined, legend(names, joined.shape[1])])

    def write(
        self, out: Path, names: Sequence[str], predictions: Iterable[tuple[str, bytes]]
    ) -> list[str]:
        """Write a PNG of class indices with VOC's palette for each image, of its size."""
        name_of = written_names(names, ".png")
        num = 0
        for name, prediction in predictions:
            path = out / "masks" / name_of[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path, "wb", synced=False) as file:
                file.write(prediction)
            num += 1
        return [f"{num} label images: {out / 'masks'}"]
