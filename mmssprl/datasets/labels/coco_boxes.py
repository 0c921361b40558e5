"""Compare the boxes of a COCO file with its masks, areas and sizes of images.

Legend: N boxes; a box is x, y, width and height in pixels.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools import mask as run_lengths

from ...errors import UserValueError
from .agreement import differing

Boxes = NDArray[np.float64]
LEAST_COORDINATES = 6
"""Numbers of a polygon with three corners."""
_EQUAL, _ELSEWHERE = 0.9, 0.25
"""Intersection over union of boxes of one thing, at least, and of boxes of two things, below."""
_CLOSE, _INSIDE = 0.05, 1.02
"""Relative difference of areas, and sides of an image that a box may reach, by rounding."""
_MOST, _TENTH, _SOME = 0.5, 0.1, 0.05
"""Fractions of the boxes that fit only with another meaning of the numbers: the file is refused by
masks or areas, is refused by the sizes of its images if then all boxes fit, is warned of."""


def check_boxes(name: str, content: dict[str, Any], warnings: list[str]) -> None:
    """Raise ValueError for a file whose boxes are in shares, or are corners or centres.

    Boxes are compared with those around their masks, else with areas and sizes of images. Single
    boxes far from their masks are a warning. Crowds are not compared.
    """
    own = [a for a in content["annotations"] if a.get("bbox") is not None and not a.get("iscrowd")]
    masks = [_drawn(a.get("segmentation")) for a in own]
    around = _array([box_around(mask) for mask in masks if mask], 4)
    _refuse_shares(name, "bbox", _array([a["bbox"] for a in own], 4))
    _refuse_shares(name, "segmentation", around)
    own = [a for a, mask in zip(own, masks, strict=True) if mask or not len(around)]
    boxes = _array([a["bbox"] for a in own], 4)
    size_of = {i["id"]: _positive(i.get("width"), i.get("height")) for i in content["images"]}
    sizes = _array([size_of[a["image_id"]] for a in own], 2)

    def compare(source: str, fits: Callable[[Boxes], Any], least: float, num: int) -> Any:
        """Refuse the boxes, or return which of them fit only with another meaning."""
        wrong = ~fits(boxes)
        found = np.zeros(len(boxes), bool)
        for meaning, other in [*_meanings(boxes).items()][:num]:
            explained = wrong & fits(other)
            if explained.sum() > least * len(boxes) and (least == _MOST or fits(other).all()):
                rule = f"{name}: COCO's bbox is [x, y, width, height]"
                named = [_named(own[k]) for k in np.flatnonzero(explained)]
                remedy = f"the numbers fit as {meaning}: convert them"
                raise UserValueError(differing(rule, "bbox", source, named, len(own), remedy))
            if explained.sum() > _SOME * len(boxes):
                found |= explained
        return found

    if not len(around):
        areas = _array([_positive(a.get("area")) for a in own], 1)[:, 0]
        compare("area", lambda b: np.isclose(b[:, 2:].clip(0).prod(1), areas, _CLOSE), _MOST, 1)
        # EXIF can swap x and y, too.
        compare("the sizes of images", lambda b: _are_inside(b, sizes), _TENTH, 2)
        return
    overlaps = _overlaps(boxes, around)
    found = compare("segmentation", lambda b: _overlaps(b, around) >= _EQUAL, _MOST, 4)
    # Boxes without an area inside their image are reported for all layouts.
    is_odd = (boxes[:, :2] >= sizes).any(1) | (boxes[:, 2:] < 1).any(1)
    elsewhere = np.flatnonzero((found | (overlaps < _ELSEWHERE)) & ~is_odd)
    if len(elsewhere):
        named = [f"{_named(own[k])} and {_shown(around[k])} around its mask" for k in elsewhere]
        rule = f"{name}: boxes must be around their masks"
        remedy = "both are used as they are: correct one"
        warnings.append(differing(rule, "bbox", "segmentation", named, len(own), remedy))


def box_around(segmentation: Any) -> list[float]:
    """Return the box around polygons or run lengths."""
    if isinstance(segmentation, dict):
        if isinstance(segmentation["counts"], list):
            segmentation = run_lengths.frPyObjects(segmentation, *segmentation["size"])
        return run_lengths.toBbox(segmentation).tolist()
    sides = [[v for polygon in segmentation for v in polygon[axis::2]] for axis in (0, 1)]
    return [*map(min, sides), *(max(side) - min(side) for side in sides)]


def _drawn(segmentation: Any) -> Any:
    if isinstance(segmentation, list):
        return [polygon for polygon in segmentation if len(polygon) >= LEAST_COORDINATES]
    return segmentation


def _array(rows: Any, width: int) -> Boxes:
    return np.array(rows, np.float64).reshape(-1, width)


def _positive(*values: Any) -> list[float]:
    """Return numbers above 0, else NaN, which compares as unequal."""
    return [v if isinstance(v, (int, float)) and v > 0 else np.nan for v in values]


def _refuse_shares(name: str, key: str, boxes: Boxes) -> None:
    # Whole numbers are pixels, or placeholders of tools that label whole images.
    if len(boxes) and boxes.min() >= 0 and boxes.max() <= 1 and (boxes % 1).any():
        raise UserValueError(
            f"{name}: COCO's {key} is in pixels, but all {len(boxes)} are from 0 to 1, for example "
            f"{_shown(boxes[0])}; multiply them by width and height of their images."
        )


def _are_inside(boxes: Boxes, sizes: Boxes) -> Any:
    """Whether boxes with positive sides are inside their images, as NaN is not."""
    far = boxes[:, :2] + boxes[:, 2:]
    return ((far <= _INSIDE * sizes + 1) & (boxes[:, :2] >= -1) & (boxes[:, 2:] > 0)).all(1)


def _meanings(boxes: Boxes) -> dict[str, Boxes]:
    """Return the boxes for each other meaning that tools give to four numbers."""
    swapped = boxes[:, [1, 0, 3, 2]]
    half = boxes[:, 2:] / 2
    return {
        "[x1, y1, x2, y2]": np.hstack([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]]),
        "[centre x, centre y, width, height]": np.hstack([boxes[:, :2] - half, boxes[:, 2:]]),
        "[y1, x1, y2, x2]": np.hstack([swapped[:, :2], swapped[:, 2:] - swapped[:, :2]]),
        "[y, x, height, width]": swapped,
    }


def _overlaps(boxes: Boxes, others: Boxes) -> Boxes:
    """Return intersection over union (N,), with a pixel more on each side for rounding."""
    low = np.maximum(boxes[:, :2], others[:, :2])
    high = np.minimum(boxes[:, :2] + boxes[:, 2:], others[:, :2] + others[:, 2:])
    shared = (high - low + 1).clip(0).prod(1)
    areas = (boxes[:, 2:] + 1).clip(0).prod(1) + (others[:, 2:] + 1).clip(0).prod(1)
    return shared / np.maximum(areas - shared, 1e-9)


def _named(annotation: dict[str, Any]) -> str:
    return f"annotation {annotation.get('id')!r:.40} with {_shown(annotation['bbox'])}"


def _shown(box: Any) -> str:
    return f"[{', '.join(f'{value:g}' for value in box)}]"
