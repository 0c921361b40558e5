"""Compare YOLO's texts and boxes with their images.

A text is of one image. Centre, width and height keep a box inside.

Legend: N boxes; a box is four fractions of the image's width and height.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...errors import UserValueError

_BOX = 4
"""Numbers of a box."""
_BEYOND = 0.01
"""Fraction of a side by which rounding may leave the image."""
_MOST_OUTSIDE = 0.1
"""Fraction of boxes that may leave their image, if all fit with another meaning."""
_LEAST_BEYOND = 0.05
"""Median of what boxes leave an image by if they are corners; boxes that are not clipped leave it
by less."""
_LEAST_BOXES = 10
"""Fewest boxes that say something."""


def refuse_shared(texts: Mapping[str, str]) -> None:
    """Raise ValueError if two images have one text: a.jpg and a.png may be different pictures.

    ``texts`` has the text of each image that is used.
    """
    images = defaultdict(list)
    for image, text in texts.items():
        images[text].append(image)
    shared = {text: own for text, own in images.items() if len(own) > 1}
    if shared:
        text, (first, second, *_) = next(iter(shared.items()))
        raise UserValueError(
            f"each YOLO text must be of one image, but {len(shared)} of {len(images)} are of two, "
            f"for example {text} of {first} and {second}; remove one of the two images, or rename "
            "it."
        )


def check_boxes(written: Mapping[str, Sequence[tuple[int, list[float]]]]) -> None:
    """Raise ValueError if boxes leave their images but fit as corners or from a corner.

    ``written`` are the objects by file: their classes, and a box or the corners of a polygon.

    Tools that clip no box leave the image on all sides: then no other meaning fits.
    """
    names: list[str] = []
    found: list[list[float]] = []
    for name, own in written.items():
        for _, values in own:
            if len(values) == _BOX:
                names.append(name)
                found.append(values)
    boxes = np.array(found, np.float64).reshape(-1, _BOX)
    low = boxes[:, :2]
    sides = boxes[:, 2:]
    outside = np.flatnonzero(~_are_inside(low - sides / 2, low + sides / 2))
    if len(boxes) < _LEAST_BOXES or len(outside) <= _MOST_OUTSIDE * len(boxes):
        return

    beyond = np.maximum(sides / 2 - low, low + sides / 2 - 1).max(axis=1)
    leave_by_much = np.median(beyond[outside]) > _LEAST_BEYOND
    others = {
        "the corners x1 y1 x2 y2": (low < sides).all(1) & leave_by_much,
        "x and y of the upper left corner, width and height": _are_inside(low, low + sides),
    }
    for meaning, fits in others.items():
        if fits.all():
            first = outside[0]
            box = " ".join(f"{value:g}" for value in boxes[first])
            raise UserValueError(
                "YOLO's boxes are x and y of the centre, width and height, but "
                f"{len(outside)} of {len(boxes)} would leave their image, for example {box} in "
                f"{names[first]}; all fit as {meaning}: convert them."
            )


def _are_inside(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.all((low >= -_BEYOND) & (high <= 1 + _BEYOND), axis=1)
