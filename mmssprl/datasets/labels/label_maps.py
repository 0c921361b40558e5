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
from pycocotools.coco import COCO

from ...errors import UserValueError
from ..image_reading import open_image
from .labelled_images import Colour, LabelledImage, Object

_INDEX_MODES = ("P", "L", "1")
IN_COLOUR = ("RGB", "RGBA")
"""Modes of label images whose colours are classes."""
_BORDER = (224, 224, 192)
"""VOC's colour of ignored pixels."""
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
"""How stored pixels become those that are shown, by EXIF orientation."""
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
        turn = _TURNS[image.mask_orientation]
        return np.array(Image.fromarray(indices).transpose(turn))
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
        pixels = np.array(file)
        palette = np.reshape(file.getpalette() or [], (-1, 3))
        if file.format == "GIF" and mode == "P" and (palette == palette[:, :1]).all():
            pixels = palette[pixels, 0]  # GIF renumbers levels of gray
    if mode not in _INDEX_MODES:
        raise UserValueError(
            f"{name}: class indices must be 8 bits, gray or with a palette, but its mode is {mode}"
            "; convert it, or list name:red,green,blue of each class in labelmap.txt."
        )
    return pixels.astype(np.uint8)


def _by_colour(
    pixels: NDArray[np.uint8], name: str, colours: Sequence[Colour]
) -> NDArray[np.uint8]:
    """Return the index in ``colours`` of the pixels (H, W, 3)."""
    red, green, blue = np.moveaxis(pixels.astype(np.int32), -1, 0)
    codes = red << 16 | green << 8 | blue  # one number per pixel is compared much faster
    found = np.full(codes.shape, -1, np.int16)
    for index, (r, g, b) in [(IGNORED, _BORDER), *enumerate(colours)]:
        found[codes == (r << 16 | g << 8 | b)] = index
    if (found < 0).any():
        other = tuple(pixels[found < 0][0].tolist())
        raise UserValueError(
            f"{name}: the colours of classes must be in labelmap.txt, but {(found < 0).sum()} of "
            f"{found.size} pixels are others, for example {other}; add its class, or save label "
            "images without smoothing."
        )
    return found.astype(np.uint8)


def object_mask(segmentation: Any, width: int, height: int) -> NDArray[np.bool_]:
    """Return the mask (H, W) of an object's polygons or run lengths, as pycocotools draws it."""
    coco = COCO()
    coco.imgs = {0: {"width": width, "height": height}}
    try:
        mask = coco.annToMask({"image_id": 0, "segmentation": segmentation})
    except ValueError:  # the lengths exceed the image
        mask = np.full((height, width), IGNORED)
    if mask.max(initial=0) > 1:  # the lengths are too few, and the rest is uninitialised memory
        raise UserValueError(
            f"run lengths must sum up to the {height} x {width} px of their image; correct them."
        )
    return mask.astype(bool)


def is_whole_image(thing: Object, width: int, height: int) -> bool:
    """Whether a mask is the rectangle of the whole image, as tools write for image labels."""
    if not thing.segmentation or isinstance(thing.segmentation, dict):
        return False
    sides = ({v for each in thing.segmentation for v in each[i::2]} for i in (0, 1))
    return all(
        len(side) == 2 and max(side) - min(side) >= px - 1  # index or edge of the last pixel
        for side, px in zip(sides, (width, height), strict=True)
    )


def _unknown(thing: Object, width: int, height: int) -> Any:
    """Index the pixels of a crowd, or the box of an object without a mask."""
    if thing.segmentation:
        return object_mask(thing.segmentation, width, height)
    x, y, box_width, box_height = thing.box or (0, 0, width, height)
    return (
        slice(max(0, math.floor(y)), max(0, math.ceil(y + box_height))),
        slice(max(0, math.floor(x)), max(0, math.ceil(x + box_width))),
    )
