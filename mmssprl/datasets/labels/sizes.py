"""The sizes of images beside those that their labels say: labels of other images are refused."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...console.progress import watch
from ...errors import UserValueError
from ..image_reading import ImageReadError, open_image
from .labelled_images import LabelledImage, Object

Size = tuple[int, int]
_ORIENTATION = 0x0112
_TURNED = (5, 6, 7, 8)
"""EXIF's orientations by which width and height change places."""
_BEYOND, _BEYOND_TURNED = 0.1, 0.02
"""Share of a side by which careless corners of boxes and polygons may lead out of the image."""
_MOST_BEYOND = 0.1
"""Share of the images with labels that lead out further: more are labels of other images."""


def measure(
    images: Sequence[LabelledImage], *, may_skip: bool = False, placed: bool = True
) -> list[LabelledImage]:
    """Open each image for its size, and return boxes and masks in pixels of the image as shown.

    Images that cannot be read keep a size of 0, 0 if they ``may_skip``. ``placed`` says whether
    boxes and masks are used.

    Raises:
        ImageReadError: An image that cannot be read.
        ValueError: Labels of images of another size, or of the pixels before the EXIF turn.
    """
    found, opened = [], []
    for image in watch(images, "reading sizes"):
        try:
            image = _open(image, placed)
            opened.append(image)
        except ImageReadError:
            if not may_skip:
                raise
        found.append(image)
    if placed:
        _check_extents(opened)
    return found


def _open(image: LabelledImage, placed: bool) -> LabelledImage:
    with open_image(image.path) as file:
        shown, is_turned = file.size, file.getexif().get(_ORIENTATION) in _TURNED
    shown = shown[::-1] if is_turned else shown
    if image.mask is not None:
        with open_image(image.mask) as file:
            if file.size != shown:
                raise UserValueError(
                    f"{image.mask}: a label image must have its image's size, but they are "
                    f"{file.size} and {shown} (width, height); write it again at full size."
                )
    masks = [x.segmentation for x in image.objects if isinstance(x.segmentation, dict)]
    frames = {(mask["size"][1], mask["size"][0]) for mask in masks}
    if all(image.frame) and any(abs(a - b) > 1 for a, b in zip(image.frame, shown, strict=True)):
        frames.add(image.frame)
    if frames - {shown}:
        _refuse(image, shown, f"say {_px(min(frames - {shown}))}", is_turned)
    if image.in_shares:
        objects = tuple(_in_pixels(thing, shown) for thing in image.objects)
        image = replace(image, objects=objects, in_shares=False)
    found = replace(image, size=shown, frame=(0, 0))
    extent = _extent(found.objects)
    if placed and is_turned and _leads_out(extent, shown, _BEYOND_TURNED):
        _refuse(found, shown, "reach to {:g}, {:g}".format(*extent), is_turned)
    return found


def _refuse(image: LabelledImage, shown: Size, said: str, is_turned: bool) -> None:
    exif = "as EXIF turns it; remove its orientation (exiftool -Orientation=), "
    raise UserValueError(
        f"{image.path}: labels must be of the size of their images, but {said}, and the image has "
        f"{_px(shown)}{f', {exif}' if is_turned else '; '}take the images that were labelled, or "
        "correct the sizes (0 where they are unknown)."
    )


def _check_extents(images: Sequence[LabelledImage]) -> None:
    """Raise ValueError if boxes or polygons of many images lead far out of theirs."""
    extents = [(image, _extent(image.objects)) for image in images]
    beyond = [(image, far) for image, far in extents if _leads_out(far, image.size, _BEYOND)]
    if len(beyond) > 1 + _MOST_BEYOND * len(images):
        image, (x, y) = beyond[0]
        raise UserValueError(
            f"labels must lie in their images, but {len(beyond)} of {len(images)} have some that "
            f"lead out, for example {image.path} of {_px(image.size)} some that reach to "
            f"{x:g}, {y:g}; take the images that were labelled, or scale the labels."
        )


def _leads_out(extent: tuple[float, float], size: Size, share: float) -> bool:
    return any(far > (1 + share) * side + 1 for far, side in zip(extent, size, strict=True))


def _extent(objects: Iterable[Object]) -> tuple[float, float]:
    """Return the largest x and y of boxes and polygons."""
    points: list[NDArray[Any]] = [np.zeros((1, 2))]
    for thing in objects:
        if thing.box is not None:
            points.append(np.array([[thing.box[0] + thing.box[2], thing.box[1] + thing.box[3]]]))
        if isinstance(thing.segmentation, list):
            points += map(_points, thing.segmentation)
    x, y = np.concatenate(points).max(0)
    return float(x), float(y)


def _in_pixels(thing: Object, size: Size) -> Object:
    """Return an object whose box and polygons were shares of the sides of its image."""
    box = None if thing.box is None else tuple(np.multiply(thing.box, size * 2).tolist())
    polygons = [(_points(polygon) * size).ravel().tolist() for polygon in thing.segmentation or ()]
    return replace(thing, box=box, segmentation=polygons or None)


def _points(polygon: Sequence[float]) -> NDArray[Any]:
    return np.reshape(polygon[: len(polygon) // 2 * 2], (-1, 2))


def _px(size: Any) -> str:
    return "{} x {} px".format(*size)
