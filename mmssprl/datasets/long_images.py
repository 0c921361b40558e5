"""Very long and narrow images, which a resize of their shorter side would make huge.

Legend: H, W height and width in pixels.
"""

from torch import Tensor

_MOST_ASPECT = 100
"""Longer side / shorter side above which only the middle of an image is resized."""


def middle(image: Tensor) -> Tensor:
    """Return the part of an image (..., H, W) to resize before its centre is cropped.

    It is the whole image, but of a very long one the middle, with the same centre. Without this,
    6000 x 2 px become 768,000 x 256 px.
    """
    return image[(..., *middle_of(*image.shape[-2:]))]


def middle_of(height: int, width: int) -> tuple[slice, slice]:
    """Return the rows and columns of ``middle``."""
    most = _MOST_ASPECT * min(height, width)
    return _middle(height, most), _middle(width, most)


def _middle(side: int, most: int) -> slice:
    start = max(0, (side - most) // 2)
    return slice(start, side - start)
