"""Masks of objects as COCO writes them: polygons, or run lengths.

A polygon lists x and y (px) of each of its corners in turn.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools import mask as run_lengths
from pycocotools.coco import COCO

from ...errors import UserValueError

_LEAST_COORDINATES = 6
"""Numbers of a polygon with three corners."""


def without_slivers(segmentation: Any) -> Any:
    """Return a mask without the polygons of fewer than three corners.

    VIA and others write a single polygon without the list around it.
    """
    if not isinstance(segmentation, list):
        return segmentation
    is_bare = bool(segmentation) and not isinstance(segmentation[0], list)
    polygons = [segmentation] if is_bare else segmentation
    return [polygon for polygon in polygons if len(polygon) >= _LEAST_COORDINATES]


def box_around(segmentation: Any) -> list[float]:
    """Return x, y, width and height of the box around polygons or run lengths."""
    if isinstance(segmentation, dict):
        if isinstance(segmentation["counts"], list):
            segmentation = run_lengths.frPyObjects(segmentation, *segmentation["size"])
        return run_lengths.toBbox(segmentation).tolist()

    xs, ys = _coordinates(segmentation)
    return [min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)]


def rectangle(x: float, y: float, width: float, height: float) -> list[float]:
    """Return the polygon of a box."""
    return [x, y, x + width, y, x + width, y + height, x, y + height]


def object_mask(segmentation: Any, width: int, height: int) -> NDArray[np.bool_]:
    """Return the mask (H, W) of an object's polygons or run lengths, as pycocotools draws it."""
    coco = COCO()
    coco.imgs = {0: {"width": width, "height": height}}
    try:
        mask = coco.annToMask({"image_id": 0, "segmentation": segmentation})
    except ValueError:  # the lengths exceed the image
        mask = np.full((height, width), 2)
    if mask.max(initial=0) > 1:  # the lengths are too few, and the rest is uninitialised memory
        raise UserValueError(
            f"run lengths must sum up to the {height} x {width} px of their image; correct them."
        )
    return mask.astype(bool)


def is_whole_image(segmentation: Any, width: int, height: int) -> bool:
    """Whether a mask is the rectangle of the whole image, as tools write for image labels."""
    if not segmentation or isinstance(segmentation, dict):
        return False
    xs, ys = _coordinates(segmentation)
    # The far edge is written as an edge, or as the index of the last pixel.
    return all(
        len({*side}) == 2 and max(side) - min(side) >= px - 1
        for side, px in ((xs, width), (ys, height))
    )


def _coordinates(polygons: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    """Return all x and all y of some polygons."""
    xs = chain.from_iterable(polygon[::2] for polygon in polygons)
    ys = chain.from_iterable(polygon[1::2] for polygon in polygons)
    return [*xs], [*ys]
