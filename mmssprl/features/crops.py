"""Which crops of an image are embedded: its centre, and a patch of each of the pyramid's cells.

Legend: H, W height and width of an image, R crops of each image, M_s cells of scale s, px side of
a crop in pixels.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as transforms

from ..pyramid import PyramidLevel, ViewLayout

RESIZE_RATIO = 256 / 224
"""Shorter side before the centre crop / side of the crop, as in the paper's test protocol."""


@dataclass(frozen=True)
class Crops:
    """What is cut out of every image; each scale has crops of one size.

    Scale 0 is the centre crop, as in ``probe``. For scale s the whole image is resized to the
    square of ``resize_px`` that training divides into cells, and the patch in the middle of each is
    cut out: the backbone sees objects as large, in pixels, as in patches of whole images there.

    Args:
        image_px: Side of the centre crop.
        levels: Those of scale 1 on; empty for whole images alone. All cells are cut.
    """

    image_px: int
    levels: tuple[PyramidLevel, ...] = ()

    @classmethod
    def of_pyramid(cls, image_px: int, layout: ViewLayout | None) -> "Crops":
        """Return the centre crop and the patches of a layout, or of the paper's if it has none."""
        return cls(image_px, (layout.levels if layout else ()) or ViewLayout().levels)

    @property
    def counts(self) -> list[int]:
        """Crops of each scale."""
        return [1, *(level.num_cells for level in self.levels)]

    @property
    def scales(self) -> np.ndarray:
        """Scale of each of the R crops, int64 (R,)."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @property
    def cells(self) -> np.ndarray:
        """Cell of each of the R crops in its scale's grid, row by row from 0, int64 (R,)."""
        return np.concatenate([np.arange(count) for count in self.counts])

    @property
    def num_bytes(self) -> int:
        """Bytes of the crops of an image, as uint8 of three channels."""
        sides = [self.image_px, *(level.patch_px for level in self.levels)]
        return sum(3 * count * px**2 for count, px in zip(self.counts, sides, strict=True))

    def cut(self, image: Tensor) -> list[Tensor]:
        """Cut an image (3, H, W) into uint8 (1, 3, px, px), then (M_s, 3, px, px) per scale."""
        whole = transforms.resize(image, [round(self.image_px * RESIZE_RATIO)], antialias=True)
        crops = [transforms.center_crop(whole, [self.image_px, self.image_px])[None]]
        for level in self.levels:
            px = level.patch_px
            whole = transforms.resize(image, [level.resize_px, level.resize_px], antialias=True)
            patches = [whole[:, top : top + px, left : left + px] for left, top in _corners(level)]
            crops.append(torch.stack(patches))
        return crops

    def boxes(self, height: int, width: int) -> np.ndarray:
        """Return left, top, right and bottom of each crop in the image's pixels, float32 (R, 4)."""
        # The shorter side becomes px * 256 / 224, of which px in the middle stay.
        side = min(height, width) * self.image_px / round(self.image_px * RESIZE_RATIO)
        left, top = (width - side) / 2, (height - side) / 2
        boxes = [(left, top, left + side, top + side)]
        for level in self.levels:
            x, y, px = width / level.resize_px, height / level.resize_px, level.patch_px
            boxes += [
                (left * x, top * y, (left + px) * x, (top + px) * y)
                for left, top in _corners(level)
            ]
        return np.array(boxes, np.float32)


def _corners(level: PyramidLevel) -> list[tuple[int, int]]:
    """Return left and top of the patch in the middle of each cell, of ``resize_px``, by rows."""
    margin = (level.cell_px - level.patch_px) // 2
    starts = [i * level.cell_px + margin for i in range(level.grid)]
    return [(left, top) for top in starts for left in starts]
