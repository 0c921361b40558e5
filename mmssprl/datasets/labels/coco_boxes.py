"""Compare the boxes of a COCO file with its masks, areas and sizes of images.

Legend: N boxes; a box is x, y, width and height in pixels.
"""

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UserValueError
from .agreement import differing
from .object_masks import box_around, without_slivers
from .rotated import is_rotated_annotation, warn_of_rotated

Annotations = list[dict[str, Any]]
Boxes = NDArray[np.float64]
_EQUAL = 0.9
"""Least intersection over union of two boxes of one thing."""
_ELSEWHERE = 0.25
"""Intersection over union below which boxes are of two things."""
_CLOSE = 0.05
"""Relative difference of equal areas."""
_INSIDE = 1.02
"""Sides of an image that a box may reach, by rounding."""

# Fractions of the boxes that fit only with another meaning of their numbers:
_MOST_ELSEWHERE = 0.5
"""Above it, masks or areas refuse the file."""
_MOST_POINTS = 0.5
"""Fraction of the masks above which lists of points refuse the file."""
_MOST_OUTSIDE = 0.1
"""Above it, the sizes of images refuse the file if all boxes fit with the other meaning."""
_MOST_ODD = 0.05
"""Above it, the boxes are warned of."""


def check_boxes(name: str, content: dict[str, Any], warnings: list[str]) -> None:
    """Raise ValueError if the boxes of a file are in shares, or are corners or centres.

    Boxes are compared with the boxes around their masks, else with areas and sizes of images.
    Single boxes far from their masks are a warning. Crowds are not compared.
    """
    _refuse_points(name, content["annotations"])
    _warn_of_scores(name, content["annotations"], warnings)
    own = [a for a in content["annotations"] if a.get("bbox") and not a.get("iscrowd")]
    rotated = [_named(a) for a in own if is_rotated_annotation(a)]
    warn_of_rotated(rotated, len(own), warnings)
    masks = [without_slivers(a.get("segmentation")) for a in own]
    around = _array([box_around(mask) for mask in masks if mask], 4)
    _refuse_shares(name, "bbox", _boxes_of(own))
    _refuse_shares(name, "segmentation", around)

    size_of = {i["id"]: _positive(i.get("width"), i.get("height")) for i in content["images"]}
    if len(around):
        own = [a for a, mask in zip(own, masks, strict=True) if mask]
    sizes = _array([size_of[a["image_id"]] for a in own], 2)
    if len(around):
        _compare_with_masks(name, own, around, sizes, warnings)
        return

    areas = _array([_positive(a.get("area")) for a in own], 1)[:, 0]
    _misread(
        name,
        own,
        "area",
        lambda b: np.isclose(b[:, 2:].clip(0).prod(1), areas, _CLOSE),
        num_meanings=1,
        most=_MOST_ELSEWHERE,
    )
    # Only the first two meanings are tried: EXIF can swap x and y, too.
    _misread(
        name,
        own,
        "the sizes of images",
        lambda b: _are_inside(b, sizes),
        num_meanings=2,
        most=_MOST_OUTSIDE,
        least_fitting=1,
    )


def has_masks(content: dict[str, Any]) -> bool:
    """Whether some annotation of a COCO file, which need not be checked, has a mask."""
    entries = (a for a in content["annotations"] if isinstance(a, dict))
    return any(a.get("segmentation") for a in entries)


def _refuse_points(name: str, annotations: Annotations) -> None:
    """Raise ValueError if most masks are lists of points; a few are polygons of one corner."""
    masks = [a for a in annotations if a.get("segmentation")]
    points = [a for a in masks if _are_points(a["segmentation"])]
    if len(points) > _MOST_POINTS * len(masks):
        raise UserValueError(
            f"{name}: segmentation must be run lengths or a list of polygons, each [x, y, x, y, "
            f"...], but {len(points)} of {len(masks)} are lists of points, for example of "
            f"annotation {points[0].get('id')!r:.40}; join the points of each polygon."
        )


def _are_points(segmentation: Any) -> bool:
    are_lists = isinstance(segmentation, list) and isinstance(segmentation[0], list)
    return are_lists and len(segmentation) > 2 and {*map(len, segmentation)} == {2}


def _warn_of_scores(name: str, annotations: Annotations, warnings: list[str]) -> None:
    scores = [a["score"] for a in annotations if isinstance(a.get("score"), (int, float))]
    if scores and min(scores) < 1:
        warnings.append(
            f"{name}: {len(scores)} of {len(annotations)} annotations have a score, the lowest "
            f"{min(scores):g}, as predictions do: all are taken as labels; remove the wrong ones."
        )


def _compare_with_masks(
    name: str, own: Annotations, around: Boxes, sizes: Boxes, warnings: list[str]
) -> None:
    misread = _misread(
        name,
        own,
        "segmentation",
        lambda b: _overlaps(b, around) >= _EQUAL,
        num_meanings=4,
        most=_MOST_ELSEWHERE,
    )

    # Boxes without an area inside their image are reported for all layouts.
    boxes = _boxes_of(own)
    is_odd = (boxes[:, :2] >= sizes).any(1) | (boxes[:, 2:] < 1).any(1)
    is_far = _overlaps(boxes, around) < _ELSEWHERE
    elsewhere = np.flatnonzero((misread | is_far) & ~is_odd)
    if len(elsewhere):
        named = [f"{_named(own[k])} and {_shown(around[k])} around its mask" for k in elsewhere]
        rule = f"{name}: boxes must be around their masks"
        remedy = "both are used as they are: correct one"
        warnings.append(differing(rule, "bbox", "segmentation", named, len(own), remedy))


def _misread(
    name: str,
    own: Annotations,
    source: str,
    fits: Callable[[Boxes], NDArray[np.bool_]],
    *,
    num_meanings: int,
    most: float,
    least_fitting: float = 0,
) -> NDArray[np.bool_]:
    """Return which boxes (N,) fit a source only with another meaning of their numbers.

    Fewer than ``_MOST_ODD`` are none.

    Args:
        name: The file.
        own: Its annotations.
        source: What the boxes are compared with.
        fits: Compares boxes with it.
        num_meanings: How many other meanings are tried.
        most: Fraction of such boxes above which the file is refused.
        least_fitting: Fraction of all boxes that must fit then with the other meaning.

    Raises:
        ValueError: More than ``most`` fit only with another meaning.
    """
    boxes = _boxes_of(own)
    is_wrong = ~fits(boxes)
    found = np.zeros(len(own), bool)
    for meaning, other in islice(_meanings(boxes).items(), num_meanings):
        is_right = fits(other)
        explained = is_wrong & is_right
        if explained.sum() > most * len(own) and is_right.mean() >= least_fitting:
            rule = f"{name}: COCO's bbox is [x, y, width, height]"
            named = [_named(own[k]) for k in np.flatnonzero(explained)]
            remedy = f"the numbers fit as {meaning}: convert them"
            raise UserValueError(differing(rule, "bbox", source, named, len(own), remedy))
        if explained.sum() > _MOST_ODD * len(own):
            found |= explained
    return found


def _boxes_of(annotations: Annotations) -> Boxes:
    return _array([a["bbox"] for a in annotations], 4)


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


def _are_inside(boxes: Boxes, sizes: Boxes) -> NDArray[np.bool_]:
    """Whether boxes with positive sides are inside their images, as NaN is not."""
    far = boxes[:, :2] + boxes[:, 2:]
    return np.all((far <= _INSIDE * sizes + 1) & (boxes[:, :2] >= -1) & (boxes[:, 2:] > 0), axis=1)


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
