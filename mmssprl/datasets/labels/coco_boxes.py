"""Compare the boxes of a COCO file with its masks, areas and sizes of images.

Legend: N boxes; a box is x, y, width and height in pixels.
"""

from collections.abc import Sequence
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
_MOST, _SOME = 0.5, 0.05
"""Fractions of the boxes that another meaning of the numbers explains, to refuse and to warn."""
_CLOSE = 0.05  # relative difference of areas
_ROUNDING, _LEAST_BEYOND, _LEAST_BOXES = 1.02, 0.1, 10
"""Another meaning is believed without masks if at least a tenth of ten boxes leave their images."""


def check_boxes(name: str, content: dict[str, Any], warnings: list[str]) -> None:
    """Raise ValueError for a file whose boxes are in shares, or are corners or centres.

    Boxes are compared with those around their masks, else with areas and sizes of images. Single
    boxes far from their masks are a warning. Crowds are not compared.
    """
    images = content["images"]
    own = [a for a in content["annotations"] if a.get("bbox") is not None and not a.get("iscrowd")]
    boxes = _array([a["bbox"] for a in own], 4)
    _refuse_shares(name, "bbox", boxes)

    masks = [_drawn(a.get("segmentation")) for a in own]
    with_mask = [a for a, mask in zip(own, masks, strict=True) if mask]
    around = _array([box_around(mask) for mask in masks if mask], 4)
    _refuse_shares(name, "segmentation", around)
    size_of = {i["id"]: [_positive(i.get("width")), _positive(i.get("height"))] for i in images}
    if with_mask:
        sizes = _array([size_of[a["image_id"]] for a in with_mask], 2)
        _compare_with_masks(name, with_mask, around, sizes, warnings)
        return

    areas = _array([_positive(a.get("area")) for a in own], 1)[:, 0]
    sizes = _array([size_of[a["image_id"]] for a in own], 2)
    _compare_with_areas(name, own, boxes, areas)
    _compare_with_sizes(name, own, boxes, sizes)


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


def _array(rows: Sequence[Any], width: int) -> Boxes:
    return np.array(rows, np.float64).reshape(-1, width)


def _positive(value: Any) -> float:
    """Return a number above 0, else NaN, which compares as unequal."""
    return float(value) if isinstance(value, (int, float)) and value > 0 else np.nan


def _refuse_shares(name: str, key: str, boxes: Boxes) -> None:
    # Whole numbers are pixels, or placeholders of tools that label whole images.
    if len(boxes) and boxes.min() >= 0 and boxes.max() <= 1 and (boxes % 1).any():
        raise UserValueError(
            f"{name}: COCO's {key} is in pixels, but all {len(boxes)} are from 0 to 1, for example "
            f"{_shown(boxes[0])}; multiply them by width and height of their images."
        )


def _compare_with_masks(
    name: str, own: Sequence[dict[str, Any]], around: Boxes, sizes: Boxes, warnings: list[str]
) -> None:
    boxes = _array([a["bbox"] for a in own], 4)
    overlaps = _overlaps(boxes, around)
    is_elsewhere = overlaps < _ELSEWHERE
    for meaning, other in _meanings(boxes).items():
        explained = (overlaps < _EQUAL) & (_overlaps(other, around) >= _EQUAL)
        _refuse_if_most(name, "segmentation", own, explained, meaning)
        if explained.mean() > _SOME:
            is_elsewhere |= explained
    # Boxes without an area inside their image are reported for all layouts.
    is_odd = (boxes[:, :2] >= sizes).any(1) | (boxes[:, 2:] < 1).any(1)
    elsewhere = np.flatnonzero(is_elsewhere & ~is_odd)
    if len(elsewhere):
        examples = [f"{_named(own[i])} and {_shown(around[i])} around its mask" for i in elsewhere]
        rule = f"{name}: boxes must be around their masks"
        remedy = "both are used as they are: correct one"
        warnings.append(differing(rule, "bbox", "segmentation", examples, len(own), remedy))


def _compare_with_areas(
    name: str, own: Sequence[dict[str, Any]], boxes: Boxes, areas: Boxes
) -> None:
    corners = np.clip(_of_corners(boxes)[:, 2:], 0, None)
    is_own = np.isclose(boxes[:, 2:].prod(1), areas, _CLOSE)
    explained = ~is_own & np.isclose(corners.prod(1), areas, _CLOSE)
    _refuse_if_most(name, "area", own, explained, "[x1, y1, x2, y2]")


def _compare_with_sizes(
    name: str, own: Sequence[dict[str, Any]], boxes: Boxes, sizes: Boxes
) -> None:
    def leaves(boxes: Boxes) -> Any:
        beyond = boxes[:, :2] + boxes[:, 2:] > _ROUNDING * sizes + 1
        return np.any(beyond | (boxes[:, :2] < -1) | (boxes[:, 2:] <= 0), axis=1)

    wrong = leaves(boxes)
    if len(own) < _LEAST_BOXES or wrong.mean() < _LEAST_BEYOND or np.isnan(sizes).any():
        return
    for meaning, other in [*_meanings(boxes).items()][:2]:  # EXIF can swap x and y, too
        if not leaves(other).any():
            explained = wrong | (_overlaps(boxes, other) < _EQUAL)
            _refuse_if_most(name, "the sizes of images", own, explained, meaning)


def _meanings(boxes: Boxes) -> dict[str, Boxes]:
    """Return the boxes for each other meaning that tools give to four numbers."""
    swapped = boxes[:, [1, 0, 3, 2]]
    return {
        "[x1, y1, x2, y2]": _of_corners(boxes),
        "[centre x, centre y, width, height]": np.hstack(
            [boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, 2:]]
        ),
        "[y1, x1, y2, x2]": _of_corners(swapped),
        "[y, x, height, width]": swapped,
    }


def _of_corners(boxes: Boxes) -> Boxes:
    return np.hstack([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]])


def _overlaps(boxes: Boxes, others: Boxes) -> Boxes:
    """Return intersection over union (N,), with a pixel more on each side for rounding."""
    low = np.maximum(boxes[:, :2], others[:, :2])
    high = np.minimum(boxes[:, :2] + boxes[:, 2:], others[:, :2] + others[:, 2:])
    shared = np.clip(high - low + 1, 0, None).prod(1)
    areas = [np.clip(each[:, 2:] + 1, 0, None).prod(1) for each in (boxes, others)]
    return shared / np.maximum(sum(areas) - shared, 1e-9)


def _refuse_if_most(
    name: str,
    source: str,
    own: Sequence[dict[str, Any]],
    explained: NDArray[np.bool_],
    meaning: str,
) -> None:
    if explained.sum() > _MOST * len(own):
        examples = [_named(own[i]) for i in np.flatnonzero(explained)]
        rule = f"{name}: COCO's bbox is [x, y, width, height]"
        remedy = f"the numbers fit as {meaning}: convert them"
        raise UserValueError(differing(rule, "bbox", source, examples, len(own), remedy))


def _named(annotation: dict[str, Any]) -> str:
    return f"annotation {annotation.get('id')!r:.40} with {_shown(annotation['bbox'])}"


def _shown(box: Any) -> str:
    return f"[{', '.join(f'{value:g}' for value in box)}]"
