"""The class of each pixel of an image, from its label image or drawn of the masks of its objects.

Legend: H, W height and width of an image, as it is shown.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools.coco import COCO

from ...errors import UserValueError
from ..image_reading import open_image
from .labelled_images import LabelledImage, Object

IGNORED = 255
"""The value of pixels that count nowhere."""
_BEYOND = 0.1
"""Share of a side by which careless corners of polygons may lead out of the image."""


def read_label_map(image: LabelledImage) -> NDArray[np.uint8]:
    """Return the index of each pixel's class (H, W); pixels of ``IGNORED`` count nowhere.

    Of objects the smaller one is in front. Crowds, and the boxes of objects without a mask, count
    nowhere where no mask lies on them; the rest is class 0.
    """
    if image.mask is not None:
        with open_image(image.mask) as file:
            return np.array(file).astype(np.uint8)
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


def check_masks(image: LabelledImage) -> None:
    """Raise ValueError if an object's mask is of an image of another size."""
    width, height = image.size
    for thing in image.objects:
        if isinstance(thing.segmentation, dict):
            rows, columns = thing.segmentation["size"]
            is_of_image = (columns, rows) == image.size
            got = f"one of {columns} x {rows}"
        else:
            polygons = thing.segmentation or ()
            x, y = (max((v for each in polygons for v in each[i::2]), default=0) for i in (0, 1))
            is_of_image = x <= (1 + _BEYOND) * width and y <= (1 + _BEYOND) * height
            got = f"a polygon that reaches to {x:g}, {y:g}"
        if not is_of_image:
            raise UserValueError(
                f"{image.path}: masks must be of its size, {width} x {height}, but it has {got}; "
                "take the images that were annotated, or scale the masks."
            )


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
