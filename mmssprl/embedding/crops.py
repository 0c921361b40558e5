"""Which crops of an image are embedded: its centre, and the cells of the pyramid.

Legend: H, W height and width of an image, R crops of each image, M_s cells of scale s, px side of
a crop in pixels.
"""

from dataclasses import dataclass

import numpy as np
from torch import Tensor
from torchvision.transforms.v2 import functional as transforms

from ..evaluation.features import RESIZE_RATIO, centre_crop
from ..pyramid import ViewLayout


@dataclass(frozen=True)
class Crops:
    """What is cut out of every image; each scale has crops of one size.

    Scale 0 is the centre crop, as in ``probe``. The cells of scale s divide the whole image, which
    is resized to a square of ``grid * px`` for that, as training does it: no pixel is left out, and
    the backbone sees cells at the size of the patches that it was trained on.

    Args:
        image_px: Side of the centre crop.
        levels: Grid (cells per side) and px of each scale from 1 on; empty for whole images alone.
    """

    image_px: int
    levels: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of_pyramid(cls, image_px: int, layout: ViewLayout | None) -> "Crops":
        """Return the centre crop and all cells of a layout, or of the paper's if it has none."""
        levels = (layout.levels if layout else ()) or ViewLayout().levels
        return cls(image_px, tuple((level.grid, level.patch_px) for level in levels))

    @property
    def scales(self) -> np.ndarray:
        """Scale of each of the R crops, int64 (R,)."""
        counts = [1, *(grid**2 for grid, _ in self.levels)]
        return np.repeat(np.arange(len(counts)), counts)

    @property
    def cells(self) -> np.ndarray:
        """Cell of each of the R crops in its scale's grid, row by row from 0, int64 (R,)."""
        return np.concatenate([np.arange(1), *(np.arange(grid**2) for grid, _ in self.levels)])

    def cut(self, image: Tensor) -> list[Tensor]:
        """Cut an image (3, H, W) into uint8 (1, 3, px, px), then (M_s, 3, px, px) per scale."""
        crops = [centre_crop(image, self.image_px)[None]]
        for grid, px in self.levels:
            whole = transforms.resize(image, [grid * px, grid * px], antialias=True)
            # (3, grid px, grid px) -> (3, grid, px, grid, px) -> (grid, grid, 3, px, px)
            cells = whole.reshape(3, grid, px, grid, px).permute(1, 3, 0, 2, 4)
            crops.append(cells.reshape(grid**2, 3, px, px))
        return crops

    def boxes(self, height: int, width: int) -> np.ndarray:
        """Return left, top, right and bottom of each crop in the image's pixels, float32 (R, 4)."""
        boxes = [_centre_box(height, width, self.image_px)]
        for grid, _ in self.levels:
            w, h = width / grid, height / grid
            boxes += [
                (column * w, row * h, (column + 1) * w, (row + 1) * h)
                for row in range(grid)
                for column in range(grid)
            ]
        return np.array(boxes, np.float32)


def _centre_box(height: int, width: int, px: int) -> tuple[float, float, float, float]:
    # The shorter side becomes px * 256 / 224, of which px in the middle stay.
    side = min(height, width) * px / round(px * RESIZE_RATIO)
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side
