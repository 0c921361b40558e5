"""The class of each pixel of an image, from its label image or the masks of its objects.

Legend: H, W height and width of the image as shown.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ...errors import UserValueError
from ..image_reading import open_image
from .labelled_images import Colour, LabelledImage, Object
from .object_masks import object_mask
from .orientation import turn_pixels

_INDEX_MODES = ("P", "L", "1")
IN_COLOUR = ("RGB", "RGBA")
"""Modes of label images with a colour for each class."""
_BORDER = (224, 224, 192)
"""VOC's colour of ignored pixels."""
_BLACK = [0] * 768
IGNORED = 255
"""Index of pixels that losses and metrics ignore."""


def read_label_map(image: LabelledImage) -> NDArray[np.uint8]:
    """Return the class index of each pixel (H, W), or ``IGNORED``.

    Smaller objects are in front of larger ones. Crowds, and boxes of objects without a mask, are
    ignored where no mask covers them. All other pixels are class 0.
    """
    if image.mask is not None:
        indices = read_indices(image.mask, image.mask, image.mask_colours)
        if image.mask_orientation == 1:
            return indices
        return turn_pixels(indices, image.mask_orientation)

    width, height = image.size
    found = np.zeros((height, width), np.uint8)
    drawn = []
    for thing in image.objects:
        if thing.segmentation and not thing.is_crowd:
            drawn.append((object_mask(thing.segmentation, width, height), thing.label))
        else:
            found[_unknown(thing, width, height)] = IGNORED

    for mask, label in sorted(drawn, key=lambda each: -each[0].sum()):
        found[mask] = label
    return found


def read_indices(path: str | Path, name: str, colours: Sequence[Colour] = ()) -> NDArray[np.uint8]:
    """Return the pixels of a label image (H, W), which errors call ``name``.

    The index of a colour in ``colours`` is its class, if there are some.
    """
    with open_image(path) as file:
        mode = file.mode
        if colours:
            return _by_colour(np.array(file.convert("RGB")), name, colours)
        levels = gray_levels(file)
        pixels = np.array(file)

    if mode not in _INDEX_MODES:
        raise UserValueError(
            f"{name}: class indices must be 8 bits, gray or with a palette, but its mode is {mode}"
            "; convert it, or list name:red,green,blue of each class in labelmap.txt."
        )
    return (pixels if levels is None else levels[pixels]).astype(np.uint8)


def palette_of(file: Image.Image) -> NDArray[Any]:
    """Return the colours (256, 3) of a palette, with black ones at its end; (0, 3) without one."""
    colours = file.getpalette() if file.mode == "P" else None
    return np.reshape([*colours, *_BLACK][: len(_BLACK)] if colours else [], (-1, 3))


def gray_levels(file: Image.Image) -> NDArray[Any] | None:
    """Return the level (256,) of each index of a gray GIF, which renumbers levels; else None."""
    if file.format != "GIF" or file.mode != "P":
        return None
    palette = palette_of(file)
    return palette[:, 0] if (palette == palette[:, :1]).all() else None


def _by_colour(
    pixels: NDArray[np.uint8], name: str, colours: Sequence[Colour]
) -> NDArray[np.uint8]:
    """Return the index in ``colours`` of the pixels (H, W, 3)."""
    red, green, blue = np.moveaxis(pixels.astype(np.int32), -1, 0)
    codes = red << 16 | green << 8 | blue  # one number per pixel is compared much faster
    found = np.full(codes.shape, -1, np.int16)
    for index, (r, g, b) in [(IGNORED, _BORDER), *enumerate(colours)]:
        has_colour = codes == (r << 16 | g << 8 | b)
        found[has_colour] = index

    is_other = found < 0
    others = pixels[is_other]
    if len(others):
        raise UserValueError(
            f"{name}: the colours of classes must be in labelmap.txt, but {len(others)} of "
            f"{found.size} pixels are others, for example {tuple(others[0].tolist())}; add its "
            "class, or save label images without smoothing."
        )
    return found.astype(np.uint8)


def _unknown(thing: Object, width: int, height: int) -> Any:
    """Index the pixels of a crowd, or the box of an object without a mask."""
    if thing.segmentation:
        return object_mask(thing.segmentation, width, height)
    x, y, box_width, box_height = thing.box or (0, 0, width, height)
    return (
        slice(max(0, math.floor(y)), max(0, math.ceil(y + box_height))),
        slice(max(0, math.floor(x)), max(0, math.ceil(x + box_width))),
    )
