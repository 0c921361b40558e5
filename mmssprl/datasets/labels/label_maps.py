"""The class of each pixel of an image, from its label image or drawn of the masks of its objects.

Legend: H, W height and width of an image, as it is shown.
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
"""The value of pixels that count nowhere."""


def read_label_map(image: LabelledImage) -> NDArray[np.uint8]:
    """Return the index of each pixel's class (H, W); pixels of ``IGNORED`` count nowhere.

    Of objects the smaller one is in front. Crowds, and the boxes of objects without a mask, count
    nowhere where no mask lies on them; the rest is class 0.
    """
    if image.mask is not None:
        return read_indices(image.mask, image.mask)
    width, height = image.size
    found = np.zeros((height, width), np.uint8)
    drawn = []
    for thing in image.objects:
        if thing.segmentation and not thing.is_crowd:
            drawn.append((draw_mask(thing.segmentation, width, height), thing.label))
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
            pixels = palette[pixels, 0]  # levels of gray, which it numbers anew
    if mode not in _INDEX_MODES:
        raise UserValueError(
            f"{name}: must be a PNG of class indices (8 bits, gray or with a palette), but its "
            f"mode is {mode}, of colours or larger numbers; convert it."
        )
    return pixels.astype(np.uint8)


def draw_mask(segmentation: Any, width: int, height: int) -> NDArray[np.bool_]:
    """Return the mask (H, W) of an object's polygons or run lengths, as pycocotools draws it."""
    coco = COCO()
    coco.imgs = {0: {"width": width, "height": height}}
    try:
        mask = coco.annToMask({"image_id": 0, "segmentation": segmentation})
    except ValueError:  # more lengths than pixels
        mask = np.full((height, width), IGNORED)
    if mask.max(initial=0) > 1:  # fewer: the rest is whatever lay in memory
        raise UserValueError(
            f"run lengths must sum up to their image's {height} x {width} pixels, but one's do "
            "not; repair the annotation file."
        )
    return mask.astype(bool)


def is_whole_image(thing: Object, width: int, height: int) -> bool:
    """Whether a mask is the rectangle of its whole image, as of a class without a place."""
    if not thing.segmentation or isinstance(thing.segmentation, dict):
        return False
    sides = ({v for each in thing.segmentation for v in each[i::2]} for i in (0, 1))
    return all(
        len(side) == 2 and max(side) - min(side) >= px - 1  # the last pixel's index, or its edge
        for side, px in zip(sides, (width, height), strict=True)
    )


def _unknown(thing: Object, width: int, height: int) -> Any:
    """Return an index of the pixels of a crowd, or of an object whose mask nobody has drawn."""
    if thing.segmentation:
        return draw_mask(thing.segmentation, width, height)
    x, y, box_width, box_height = thing.box or (0, 0, width, height)
    return (
        slice(max(0, math.floor(y)), max(0, math.ceil(y + box_height))),
        slice(max(0, math.floor(x)), max(0, math.ceil(x + box_width))),
    )
