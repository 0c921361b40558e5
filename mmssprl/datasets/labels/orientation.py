"""Labels of stored pixels, before EXIF turns them: which labels are, and how they are turned.

Legend: H, W height and width of the stored pixels, N points.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ...console.wording import counted

_Labels = TypeVar("_Labels")
TURNED = range(2, 9)
"""EXIF orientations that change an image."""
SIDEWAYS = range(5, 9)
"""EXIF orientations that swap width and height."""
_TURN = Image.Transpose
_TURNS = {
    2: _TURN.FLIP_LEFT_RIGHT,
    3: _TURN.ROTATE_180,
    4: _TURN.FLIP_TOP_BOTTOM,
    5: _TURN.TRANSPOSE,
    6: _TURN.ROTATE_270,
    7: _TURN.TRANSVERSE,
    8: _TURN.ROTATE_90,
}
"""How stored pixels are turned to be shown, by EXIF orientation."""
_REVERSED_X = (2, 3, 6, 7)
"""EXIF orientations that reverse x, after they have swapped the sides."""
_REVERSED_Y = (3, 4, 7, 8)


def turn_pixels(pixels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Turn stored pixels (H, W) to be shown."""
    return np.array(Image.fromarray(pixels).transpose(_TURNS[orientation]))


def turn_points(
    points: NDArray[Any], orientation: int, shown: tuple[int, int]
) -> NDArray[np.float64]:
    """Turn x and y (N, 2) in stored pixels to those in an image ``shown`` as (width, height)."""
    x, y = np.asarray(points, float).T[:: -1 if orientation in SIDEWAYS else 1]
    width, height = shown
    if orientation in _REVERSED_X:
        x = width - x
    if orientation in _REVERSED_Y:
        y = height - y
    return np.stack([x, y], axis=1)


class Fits(NamedTuple):
    """The pixels that labels can be of."""

    as_shown: bool
    as_stored: bool


def of_stored_pixels(
    fits: Mapping[_Labels, Fits],
) -> tuple[set[_Labels], set[_Labels]]:
    """Return the labels of the stored pixels, and the undecided ones.

    Labels that fit both follow the others, if all these are of one kind.
    """
    of_stored = {labels for labels, own in fits.items() if not own.as_shown}
    of_shown = {labels for labels, own in fits.items() if not own.as_stored}
    of_either = fits.keys() - of_stored - of_shown
    if of_stored and not of_shown:
        return of_stored | of_either, set()
    if of_shown and not of_stored:
        return set(), set()
    return of_stored, of_either


def undecided_warning(paths: Sequence[str], what: str) -> str:
    """Return a warning of images with undecided labels, which are called ``what``."""
    return (
        f"EXIF turns {counted(len(paths), 'image')}, for example {min(paths)}, and no size tells "
        f"whether the {what} are of the pixels before that: they are read as those of the images "
        "as shown."
    )
