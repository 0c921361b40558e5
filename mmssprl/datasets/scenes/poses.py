"""Where an object lies and which pixels it covers."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from mmssprl.datasets.scenes.outlines import Contour, pose_outline

MIN_SCALE, MAX_SCALE = 0.1, 0.6
"""Range of an object's diameter (of its circumscribed circle) over the image side."""

_SUPERSAMPLING = 4
_SHIFT_BITS = 4

Array = NDArray[np.float32]
Window = tuple[slice, slice]
"""Rows and columns."""


@dataclass(frozen=True)
class Pose:
    """An object's place, and its coverage of the pixels of a square box around it.

    Args:
        center_px: (x, y) from the image's top left corner.
        radius_px: Half the object's diameter.
        to_upright: (2, 2), takes points of the unit disc to the upright object's unit disc.
        left: Image column of the box's first column; negative left of the image.
        top: Image row of the box's first row; negative above the image.
        coverage: (side, side) in [0, 1], the anti-aliased silhouette.
    """

    center_px: NDArray[np.float64]
    radius_px: float
    to_upright: NDArray[np.float64]
    left: int
    top: int
    coverage: Array


def draw_pose(rng: np.random.Generator, shape: str, size_px: int) -> Pose:
    """Draw position, scale, rotation and stretch of an object.

    At most a quarter of its diameter lies beyond each side of the image.
    """
    scale = MIN_SCALE * (MAX_SCALE / MIN_SCALE) ** (rng.random() ** 0.65)
    radius = scale / 2 * size_px
    center = rng.uniform(radius / 2, size_px - radius / 2, 2)
    contours, to_upright = pose_outline(
        shape, angle=rng.uniform(-0.5, 0.5), aspect=rng.uniform(0.85, 1.18)
    )
    left, top = (int(np.floor(c - radius)) - 1 for c in center)
    side = int(np.ceil(2 * radius)) + 3
    coverage = _rasterize([c * radius + center - (left, top) for c in contours], side)
    return Pose(center, radius, to_upright, left, top, coverage)


def _rasterize(contours: list[Contour], side: int) -> Array:
    """Fill contours, in pixels from the corner of a (side, side) box; coverage in [0, 1]."""
    scale = _SUPERSAMPLING * 2**_SHIFT_BITS
    # OpenCV's integer coordinates are pixel centres, half a fine pixel off the corner.
    points = [np.rint(c * scale - 2 ** (_SHIFT_BITS - 1)).astype(np.int32) for c in contours]
    fine = np.zeros((side * _SUPERSAMPLING,) * 2, np.uint8)
    cv2.fillPoly(fine, points, 255, shift=_SHIFT_BITS)
    coverage = cv2.resize(fine, (side, side), interpolation=cv2.INTER_AREA)
    return coverage.astype(np.float32) / np.float32(255)


def clip_box(left: int, top: int, side: int, size_px: int) -> tuple[Window, Window]:
    """The part of a square box inside the image, as windows of the image and of the box."""
    image, box = [], []
    for start in (top, left):
        low, high = max(start, 0), max(min(start + side, size_px), 0)
        image.append(slice(low, high))
        box.append(slice(low - start, high - start))
    return (image[0], image[1]), (box[0], box[1])
