"""Crops of an image that features are extracted from.

Legend: R crops of each image, M_s cells of scale s, px side of a crop.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as transforms

from ..datasets.long_images import middle
from ..pyramid import PyramidLevel
from .backbone import RESIZE_RATIO


@dataclass(frozen=True)
class Crops:
    """Crops of an image, all of one size per scale.

    Scale 0 is the centre crop of side ``image_px``. For each level the whole image is resized to
    ``resize_px`` squared, as in training, and the patch in the middle of each cell is cropped.
    """

    image_px: int
    levels: tuple[PyramidLevel, ...] = ()

    @property
    def counts(self) -> list[int]:
        """Number of crops of each scale; their sum is R."""
        return [1, *(level.num_cells for level in self.levels)]

    def cut(self, image: Tensor) -> list[Tensor]:
        """Cut an image (3, H, W) into uint8 (1, 3, px, px), then (M_s, 3, px, px) per scale."""
        whole = middle(image)
        whole = transforms.resize(whole, [round(self.image_px * RESIZE_RATIO)], antialias=True)
        crops = [transforms.center_crop(whole, [self.image_px, self.image_px])[None]]
        for level in self.levels:
            px = level.patch_px
            whole = transforms.resize(image, [level.resize_px, level.resize_px], antialias=True)
            patches = [whole[:, top : top + px, left : left + px] for left, top in _corners(level)]
            crops.append(torch.stack(patches))
        return crops

    def boxes(self, height: int, width: int) -> np.ndarray:
        """Return left, top, right and bottom of each crop in the image's pixels, float32 (R, 4)."""
        # The shorter side becomes px * 256 / 224, and the crop keeps px in the middle.
        side = min(height, width) * self.image_px / round(self.image_px * RESIZE_RATIO)
        left = (width - side) / 2
        top = (height - side) / 2
        boxes = [np.array([[left, top, left + side, top + side]])]
        for level in self.levels:
            corners = np.array(_corners(level))
            square = np.hstack([corners, corners + level.patch_px])
            boxes.append(square * [width, height, width, height] / level.resize_px)
        return np.concatenate(boxes).astype(np.float32)


def _corners(level: PyramidLevel) -> list[tuple[int, int]]:
    """Return left and top in the resized image of the patch in each cell, by rows."""
    margin = (level.cell_px - level.patch_px) // 2
    starts = [i * level.cell_px + margin for i in range(level.grid)]
    return [(left, top) for top, left in product(starts, starts)]
