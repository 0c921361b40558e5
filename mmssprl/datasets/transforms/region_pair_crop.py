"""Cut two views of an image that share a region, and draw boxes in them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torchvision.ops import box_iou

from ...errors import UserValueError
from ...pyramid import ViewLayout
from ...registry import TRANSFORMS
from .pyramid_crop import Box, Cropper, PyramidCrop, draw_box

_LEAST_SHARED = 0.4
_MOST_IOU = 0.3
_NUM_TRIES = 10  # draws of a pair of crops, and of each other box


@TRANSFORMS.register_module()
class RegionPairCrop(PyramidCrop):
    """Cut two views that share a region, and draw boxes in them, for ``MaskCo``.

    ASSUMPTION: The views are drawn up to 10 times, until the shared region is at least 0.4 of each;
    otherwise the second view equals the first. The first box is inside the shared region, with
    sides in whole pixels of the first view. The other boxes are inside the second view, with sides
    drawn alike, and have an IoU below 0.3 with the first box, or the smallest of 10 draws.

    Keys required, optional and deleted are as for ``PyramidCrop``.

    **Added Keys:**

    - inputs (list of one uint8 tensor (2, 3, px, px)): As ``PyramidCrop``.
    - data_samples (dict): ``places`` as in ``PyramidCrop``, and ``boxes``, a float32 tensor
      (1 + J, 4) in pixels of the image: the box of both views, then J others of the second.

    Args:
        layout: As in ``PyramidCrop``, with ``levels=[]``.
        box_px: (low, high), the range of the sides of boxes in pixels of a view.
        num_others: J, the number of other boxes.
    """

    def __init__(
        self,
        layout: ViewLayout | Mapping | None = None,
        box_px: tuple[int, int] = (64, 128),
        num_others: int = 3,
    ) -> None:
        self.box_px = tuple(box_px)
        self.num_others = num_others
        super().__init__(layout, with_places=True)

    def take_layout(self, layout: ViewLayout | Mapping) -> None:
        """Set the views. Raises ValueError if boxes do not fit into them."""
        super().take_layout(layout)
        px = self.layout.image_px
        box_px = self.box_px
        if len(box_px) != 2 or not 1 <= box_px[0] <= min(box_px[1], _LEAST_SHARED * px):
            raise UserValueError(
                f"box_px must be (low, high) with 1 <= low <= high, and low at most {_LEAST_SHARED}"
                f" of image_px={px}, but got {box_px}; lower it."
            )

    def transform(self, results: dict) -> dict[str, Any]:
        """Cut both views from ``results['img']``."""
        cropper = self.cropper_of(results)
        px = self.layout.image_px
        crops = cropper.empty(2, px)
        places = []
        for crop, cut in zip(crops, self._draw_pair(cropper), strict=True):
            crop[:] = cropper.crop(cut, (px, px))
            places.append(cropper.place)
        first, second = np.array(places, float)

        shared = _shared_region(first, second, px)
        box = _to_image(self._draw_boxes(shared, 1, cropper.rng)[0], first, px)

        view = np.array([0, 0, px, px], float)
        drawn = self._draw_boxes(view, self.num_others * _NUM_TRIES, cropper.rng)
        others = _unlike(drawn.reshape(-1, _NUM_TRIES, 4), _to_view(box, second, px))
        boxes = np.concatenate([box[None], _to_image(others, second, px)])
        return {
            "inputs": [torch.from_numpy(crops).permute(0, 3, 1, 2)],
            "data_samples": {
                "places": [torch.tensor(places, dtype=torch.float32)],
                "boxes": torch.from_numpy(boxes).float(),
            },
        }

    def _draw_pair(self, cropper: Cropper) -> tuple[Box, Box]:
        """Draw two crops that overlap enough, or return one crop twice."""
        height, width, _ = cropper.image.shape
        for _ in range(_NUM_TRIES):
            first, second = (
                draw_box(height, width, self.layout.image_area, cropper.rng) for _ in range(2)
            )
            largest = max(first[2] * first[3], second[2] * second[3])
            if _shared_area(first, second) >= _LEAST_SHARED * largest:
                return first, second
        return first, first

    def _draw_boxes(self, region: np.ndarray, num: int, rng: np.random.Generator) -> np.ndarray:
        """Draw boxes (num, 4) with whole pixels inside a region (4,) of a view."""
        room = region[2:] - region[:2]
        low, high = (np.minimum(side, room) for side in self.box_px)
        sides = low + np.floor(rng.random((num, 2)) * (high - low + 1))
        corners = region[:2] + np.floor(rng.random((num, 2)) * (room - sides + 1))
        return np.concatenate([corners, corners + sides], axis=1)


def _shared_area(first: Box, second: Box) -> int:
    """Return the number of pixels that are in both boxes."""
    rows, columns = (
        min(first[i] + first[i + 2], second[i] + second[i + 2]) - max(first[i], second[i])
        for i in (0, 1)
    )
    return max(0, rows) * max(0, columns)


def _shared_region(first: np.ndarray, second: np.ndarray, px: int) -> np.ndarray:
    """Return the part of the first view that the second one shows, too: a box (4,) of pixels."""
    low = np.maximum(first[:2], second[:2])
    high = np.minimum(first[2:], second[2:])
    shared = _to_view(np.concatenate([low, high]), first, px)
    # In whole pixels of the first view, so that a mask covers exactly the box.
    return np.concatenate([np.ceil(shared[:2]), np.floor(shared[2:])])


def _unlike(drawn: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Return one box of each row of ``drawn`` (J, tries, 4): the first that avoids ``box``."""
    pairs = (torch.from_numpy(each.reshape(-1, 4)) for each in (drawn, box))
    iou = box_iou(*pairs).view(drawn.shape[:2]).numpy()
    # The first IoU below the limit, or else the lowest.
    is_low = iou < _MOST_IOU
    best = np.where(is_low.any(axis=1), is_low.argmax(axis=1), iou.argmin(axis=1))
    return drawn[np.arange(len(drawn)), best]


def _to_view(boxes: np.ndarray, place: np.ndarray, px: int) -> np.ndarray:
    return (boxes - _corner(place)) * px / _size(place)


def _to_image(boxes: np.ndarray, place: np.ndarray, px: int) -> np.ndarray:
    return _corner(place) + boxes * _size(place) / px


def _corner(place: np.ndarray) -> np.ndarray:
    """Return left and top of a place (4,), twice: for both ends of a box."""
    return np.tile(place[:2], 2)


def _size(place: np.ndarray) -> np.ndarray:
    """Return width and height of a place (4,), twice: for both ends of a box."""
    return np.tile(place[2:] - place[:2], 2)
