"""The class of each pixel of an image, from its label image or the masks of its objects.

Legend: H, W height and width of the image as shown.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools.coco import COCO

from ...errors import UserValueError
from ..image_reading import open_image
from .labelled_images import LabelledImage, Object

_INDEX_MODES = ("P", "L", "1")
IGNORED = 255
"""Index of pixels that losses and metrics ignore."""


def read_label_map(image: LabelledImage) -> NDArray[np.uint8]:
    """Return the class index of each pixel (H, W), or ``IGNORED``.

    Smaller objects are in front of larger ones. Crowds, and boxes of objects without a mask, are
    ignored where no mask covers them. All other pixels are class 0.
    """
    if image.mask is not None:
        return read_indices(image.mask, image.mask)
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


def read_indices(path: str | Path, name: str) -> NDArray[np.uint8]:
    """Return the pixels of a label image (H, W), which errors call ``name``."""
    with open_image(path) as file:
        mode, pixels = file.mode, np.array(file)
        palette = np.reshape(file.getpalette() or [], (-1, 3))
        if file.format == "GIF" and mode == "P" and (palette == palette[:, :1]).all():
            pixels = palette[pixels, 0]  # GIF renumbers levels of gray
    if mode not in _INDEX_MODES:
        raise UserValueError(
            f"{name}: class indices must be 8 bits, gray or with a palette, but its mode is {mode}"
            "; convert it."
        )
    return pixels.astype(np.uint8)


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
