"""Tell drawn images from photographs: a folder gt may hold sharp photographs of blurred ones."""

import math
from collections.abc import Callable, Sequence

from torch import Tensor

from ..image_reading import ImageReadError

MOST_DRAWN = 0.1
"""Fraction of images with names of label images above which they are reported."""
_MOST_LOOKED = 8
"""Largest number of images to count colours in."""
_MOST_COLOURS = 64
"""Largest number of colours of a drawn image, on a grid of its pixels."""
_GRID = 64
"""Least number of grid lines on a longer side."""


def are_drawn(names: Sequence[str], load: Callable[[str], Tensor]) -> bool:
    """Whether one of a few images has few colours, as label images do; ``load`` reads an image."""
    looked = names[:: math.ceil(len(names) / _MOST_LOOKED)]
    return any(_has_few_colours(load, name) for name in looked)


def _has_few_colours(load: Callable[[str], Tensor], name: str) -> bool:
    try:
        image = load(name)
    except ImageReadError:
        return False
    steps = [max(1, side // _GRID) for side in image.shape[1:]]
    pixels = image[:, :: steps[0], :: steps[1]].flatten(1)
    return len(pixels.unique(dim=1).T) <= _MOST_COLOURS
