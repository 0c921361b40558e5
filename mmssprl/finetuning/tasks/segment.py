"""Segment images: a class for each pixel.

Legend: K classes, H and W height and width of an image.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config
from numpy.typing import NDArray
from PIL import Image

from ...datasets.image_opening import open_image
from ...datasets.labels import LabelledData, LabelledImage
from ...system.outputs import whole_file
from ..drawing import IGNORED, colour, overlay_labels, palette
from ..pictures import legend, written_names
from .task import Scores, Task

_MOST_ASPECT = 4
"""Longer side at most / shorter side."""
_VISIBLE = 0.01
"""Share of an image's pixels from which on a class counts as found and is named."""


class Segment(Task):
    """A label image (H, W) uint8 of each image, kept as the bytes of a PNG with VOC's palette."""

    name = "segment"
    scope = "mmseg"
    batch_size = 1  # mmseg's preprocessor takes images of one size only

    @staticmethod
    def base_config(*, on_gpu: bool) -> str:
        """Return the shipped config, with a lighter head on a CPU."""
        return f"configs/_base_/finetune_segment{'' if on_gpu else '_light'}.py"

    @staticmethod
    def facts_of(data: LabelledData) -> dict[str, bool]:
        """Return nothing: the classes say it all."""
        return {}

    def configure(self, cfg: Config, *, image_px: int, freeze: bool) -> None:
        """Set the classes and the size of the images."""
        for head in ("decode_head", "auxiliary_head"):
            if cfg.model[head] is not None:
                cfg.model[head].num_classes = len(self.classes)
        if freeze:
            cfg.model.backbone.frozen_stages = cfg.model.backbone.get("num_stages", 4)
            cfg.model.backbone.norm_eval = True
        crop = (image_px, image_px)
        cfg.model.data_preprocessor.size = crop
        for split in ("train", "val", "test"):
            for step in cfg[f"{split}_dataloader"].dataset.pipeline:
                if step.type in ("Resize", "RandomResize"):
                    step.scale = (_MOST_ASPECT * image_px, image_px)
                if step.type == "RandomCrop":
                    step.crop_size = crop

    def read(self, sample: Any) -> bytes:
        """Return the label image."""
        return _encode(sample.pred_sem_seg.data[0].cpu().numpy().astype(np.uint8))

    def score(self, images: Sequence[LabelledImage], predictions: Sequence[bytes]) -> Scores:
        """Return mIoU over the classes that labels or predictions show, as mmseg does."""
        num_classes = len(self.classes)
        pairs = np.zeros((num_classes, num_classes), np.int64)  # (truth, predicted)
        for image, prediction in zip(images, predictions, strict=True):
            truth, predicted = read_mask(str(image.mask)), _decode(prediction)
            known = truth != IGNORED
            code = num_classes * truth[known].astype(np.int64) + predicted[known]
            pairs += np.bincount(code, minlength=num_classes**2).reshape(pairs.shape)
        both = pairs.diagonal()
        true_pixels, all_pixels = pairs.sum(1), pairs.sum(0) + pairs.sum(1) - both
        shares: list[list[float | None]] = [
            [
                100 * float(both[k] / all_pixels[k]) if all_pixels[k] else None,
                100 * float(both[k] / true_pixels[k]) if true_pixels[k] else None,
            ]
            for k in range(num_classes)
        ]
        known_ious = [iou for iou, _ in shares if iou is not None]
        total = {
            "mIoU": float(np.mean(known_ious)),
            "right pixels": 100 * float(both.sum() / pairs.sum()),
        }
        return Scores(total, ["IoU %", "found %"], shares)

    def draw_truth(self, picture: Image.Image, image: LabelledImage) -> Image.Image:
        """Lay the label image over the picture."""
        return self._draw(picture, read_mask(str(image.mask)))

    def draw(self, picture: Image.Image, prediction: bytes) -> Image.Image:
        """Lay the prediction over the picture."""
        return self._draw(picture, _decode(prediction))

    def write(self, out: Path, names: Sequence[str], predictions: Sequence[bytes]) -> list[str]:
        """Write a label image per image: class indices with VOC's palette, of the image's size."""
        name_of = written_names(names, ".png")
        for name, prediction in zip(names, predictions, strict=True):
            path = out / "masks" / name_of[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path, "wb", synced=False) as file:
                file.write(prediction)
        return [f"{len(names)} label images: {out / 'masks'}"]

    def found(self, predictions: Sequence[bytes]) -> list[int]:
        """Count the images of which a class covers at least 1 %."""
        counts = np.zeros(len(self.classes), int)
        for prediction in predictions:
            counts[self._visible(_decode(prediction))] += 1
        return counts.tolist()

    def _draw(self, picture: Image.Image, labels: NDArray[np.uint8]) -> Image.Image:
        shown = self._visible(labels)
        entries = [(self.classes[k], colour(k - 1) if k else (0, 0, 0)) for k in shown]
        return legend(overlay_labels(picture, labels), entries)

    def _visible(self, labels: NDArray[np.uint8]) -> list[int]:
        shares = np.bincount(labels.ravel(), minlength=256)[: len(self.classes)] / labels.size
        return np.flatnonzero(shares >= _VISIBLE).tolist()


def read_mask(path: str) -> NDArray[np.uint8]:
    """Read a label image (H, W) of class indices."""
    with open_image(path) as image:
        return np.asarray(image)


def _encode(labels: NDArray[np.uint8]) -> bytes:
    image = Image.fromarray(labels).convert("P")
    image.putpalette(palette().tobytes())
    # Converting from gray maps values to themselves only where the palette is gray.
    image.frombytes(labels.tobytes())
    file = io.BytesIO()
    image.save(file, format="PNG")
    return file.getvalue()


def _decode(content: bytes) -> NDArray[np.uint8]:
    with open_image(content) as image:
        return np.asarray(image)
