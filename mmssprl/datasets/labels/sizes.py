"""Compare the sizes of images with those in their labels, and fit labels of another frame.

A *frame* is the width and height (px) that boxes and masks refer to. It can be the size of the
stored pixels, before the EXIF orientation is applied, or of images that were scaled later.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pycocotools import mask as run_lengths

from ...console.progress import watch
from ...errors import UserValueError
from ..image_reading import ImageReadError, open_image, stored_size
from .labelled_images import LabelledImage, Object
from .object_masks import object_mask
from .orientation import (
    SIDEWAYS,
    TURNED,
    Fits,
    of_stored_pixels,
    turn_pixels,
    turn_points,
    undecided_warning,
)

Size = tuple[int, int]
_ROUNDING = 1.02
"""Sides of an image that its labels may reach by rounding."""
_BEYOND = 1.1
"""Sides of an image that its labels may reach at most."""
_MOST_BEYOND = 0.1
"""Largest fraction of images that boxes may leave further; more are labels of other images."""


@dataclass(frozen=True, eq=False)
class _Opened:
    """An image and the sizes that its labels may refer to."""

    image: LabelledImage
    shown: Size
    stored: Size
    orientation: int
    """EXIF orientation, 1 to 8; 1 if labels are shares, which are those of the image as shown."""
    frame: Size
    """Width and height that the labels refer to, 0, 0 if unknown."""

    def reaches_beyond(self, size: Size) -> bool:
        """Whether a box or polygon leaves an image of this size, by more than rounding."""
        return _leaves(_extent(self.image.objects), size, _ROUNDING, 1)


def measure_images(
    images: Sequence[LabelledImage], warnings: list[str], *, may_skip: bool, placed: bool
) -> list[LabelledImage]:
    """Open each image for its size; return boxes and masks in pixels of the image as shown.

    Labels of the stored pixels are turned with their images, and labels of images that were scaled
    by one factor are scaled. The size of images that cannot be read stays 0, 0 if
    ``may_skip``. Boxes and masks may leave the image unless ``placed``.
    """
    opened: dict[int, _Opened] = {}
    for index, image in enumerate(watch(images, "reading sizes")):
        try:
            opened[index] = _open(image)
        except ImageReadError:
            if not may_skip:
                raise

    fitted = _fit([*opened.values()], warnings, placed=placed)
    if placed:
        _check_extents(fitted)
    of_stored = _with_stored_masks([*opened.values()], warnings)

    found = [*images]
    for (index, own), image in zip(opened.items(), fitted, strict=True):
        orientation = own.orientation if own in of_stored else 1
        found[index] = replace(image, mask_orientation=orientation)
    return found


def _open(image: LabelledImage) -> _Opened:
    with open_image(image.path) as file:
        stored, orientation = stored_size(file)
    shown = stored[::-1] if orientation in SIDEWAYS else stored

    objects = image.objects
    if image.in_shares:
        orientation = 1
        objects = tuple(_moved(thing, lambda xy: xy * shown) for thing in objects)

    masks = [x.segmentation for x in objects if isinstance(x.segmentation, dict)]
    frames = {(mask["size"][1], mask["size"][0]) for mask in masks}
    if all(image.frame):
        is_rounded = np.abs(np.subtract(image.frame, shown)).max() <= 1
        frames.add(shown if is_rounded and image.frame != stored else image.frame)
    if len(frames) > 1:
        raise UserValueError(
            f"{image.path}: its labels must be for one size, but size and run lengths are "
            f"{' and '.join(map(_px, sorted(frames)))}; correct the annotation file."
        )
    frame = frames.pop() if frames else (0, 0)
    own = replace(image, objects=objects, in_shares=False, size=shown, frame=(0, 0))
    return _Opened(own, shown, stored, orientation, frame)


def _fit(opened: Sequence[_Opened], warnings: list[str], *, placed: bool) -> list[LabelledImage]:
    turned, undecided = _labelled_before_turn(opened)
    scaled = [each for each in opened if each.frame not in ((0, 0), each.shown, each.stored)]

    if turned:
        warnings.append(
            f"{len(turned)} of {len(opened)} images have labels of the stored pixels, before EXIF "
            "orientation: they are turned with the images."
        )
    if undecided and placed:
        paths = [each.image.path for each in undecided]
        warnings.append(undecided_warning(paths, "boxes and masks"))
    if scaled:
        _check_scale(scaled, len(opened))
        warnings.append(
            f"{len(scaled)} of {len(opened)} images have labels of another size, for example "
            f"{_px(scaled[0].frame)} for {_px(scaled[0].shown)}: they are scaled to the images."
        )

    found = []
    is_scaled = set(scaled)
    for each in opened:
        objects = each.image.objects
        if each in is_scaled:
            objects = tuple(_scale(thing, each) for thing in objects)
        if each in turned:
            objects = tuple(_turn(thing, each) for thing in objects)
        found.append(replace(each.image, objects=objects))
    return found


def _labelled_before_turn(opened: Sequence[_Opened]) -> tuple[set[_Opened], set[_Opened]]:
    """Return the turned images with labels of the stored pixels, and the undecided ones.

    Labels that leave one of the two frames decide for all images; else the sizes in the labels.
    """
    turned = [each for each in opened if each.orientation in TURNED and each.image.objects]
    leaves = {tuple(map(each.reaches_beyond, (each.shown, each.stored))) for each in turned}
    is_stored = (True, False) in leaves
    is_shown = (False, True) in leaves
    if is_stored and is_shown:
        raise UserValueError(
            "labels must all be of the images as shown, or all of the stored pixels, but the "
            f"{len(turned)} images that EXIF turns have both; export the labels again."
        )
    if is_stored or is_shown:
        return (set(turned) if is_stored else set()), set()

    fits: dict[_Opened, Fits] = {}
    for each in turned:
        keeps_size = each.stored == each.shown
        as_shown = keeps_size or each.frame != each.stored
        as_stored = keeps_size or each.frame in ((0, 0), each.stored)
        fits[each] = Fits(as_shown, as_stored)
    return of_stored_pixels(fits)


def _check_scale(others: Sequence[_Opened], total: int) -> None:
    """Raise ValueError for labels of another size unless one factor scales them to the images."""
    said = np.array([each.frame for each in others])
    shown = np.array([each.shown for each in others])
    is_one_factor = ((shown - 1) / said).max() <= ((shown + 1) / said).min()

    boxes = [each for each in others if any(_extent(each.image.objects))]
    # Sizes may be wrong though boxes are right: a placeholder in every entry.
    fits = not any(each.reaches_beyond(each.frame) for each in boxes) and (
        (said[:, 0] <= shown[:, 0]).all()
        or not boxes
        or any(each.reaches_beyond(each.shown) for each in boxes)
    )
    if not (is_one_factor and fits):
        first = others[0]
        raise UserValueError(
            f"labels must have the size of their images, but {len(others)} of {total} do not, for "
            f"example {first.image.path}: the labels say {_px(first.frame)}, the image has "
            f"{_px(first.shown)}; use the labelled images, or correct the sizes (0 if unknown)."
        )


def _check_extents(images: Sequence[LabelledImage]) -> None:
    """Raise ValueError if polygons of one image, or boxes of many, leave their images by far."""
    limits = (("a polygon", False, 0), ("a box", True, _MOST_BEYOND * len(images) + 1))
    for what, with_boxes, most in limits:
        extents = [(image, _extent(image.objects, boxes=with_boxes)) for image in images]
        beyond = [each for each in extents if _leaves(each[1], each[0].size, _BEYOND)]
        if len(beyond) > most:
            image, (x, y) = beyond[0]
            raise UserValueError(
                f"{len(beyond)} of {len(images)} images have {what} outside of the image, for "
                f"example {image.path} of {_px(image.size)} one that reaches {x:g}, {y:g}; use the "
                "labelled images, or scale the labels."
            )


def _with_stored_masks(opened: Sequence[_Opened], warnings: list[str]) -> set[_Opened]:
    """Return the images that need their label images turned.

    A label image of the swapped size is of the stored pixels. Where EXIF leaves the size as it is,
    the others decide; a warning if they do not.

    Raises:
        ValueError: A label image has another size than its image, as shown or stored.
    """
    fits: dict[_Opened, Fits] = {}
    for each in opened:
        if each.image.mask is None:
            continue
        with open_image(each.image.mask) as file:
            size = file.size
        if size not in (each.stored, each.shown):
            raise UserValueError(
                f"{each.image.mask}: a label image must have the size of its image, but has "
                f"{_px(size)} instead of {_px(each.shown)}; write it again at full size."
            )
        if each.orientation in TURNED:
            fits[each] = Fits(size == each.shown, size == each.stored)

    of_stored, undecided = of_stored_pixels(fits)
    if undecided:
        paths = [each.image.path for each in undecided]
        warnings.append(undecided_warning(paths, "label images"))
    if of_stored:
        warnings.append(
            f"{len(of_stored)} of {len(opened)} label images are of the stored pixels, before EXIF "
            "orientation: they are turned with the images."
        )
    return of_stored


def _leaves(extent: tuple[float, float], size: Size, factor: float, px: float = 0) -> bool:
    return any(far > factor * side + px for far, side in zip(extent, size, strict=True))


def _extent(objects: Iterable[Object], *, boxes: bool = True) -> tuple[float, float]:
    """Return the largest x and y of boxes and polygons."""
    points: list[NDArray[Any]] = [np.zeros((1, 2))]
    for thing in objects:
        if boxes and thing.box is not None:
            points.append(np.reshape(thing.box, (2, 2)).sum(0, keepdims=True))
        if isinstance(thing.segmentation, list):
            points += map(_points, thing.segmentation)
    x, y = np.concatenate(points).max(0)
    return float(x), float(y)


def _turn(thing: Object, each: _Opened) -> Object:
    return _moved(
        thing,
        lambda xy: turn_points(xy, each.orientation, each.shown),
        lambda bits: turn_pixels(bits, each.orientation),
    )


def _scale(thing: Object, each: _Opened) -> Object:
    factors = np.divide(each.shown, each.frame)
    return _moved(
        thing,
        lambda xy: xy * factors,
        lambda bits: Image.fromarray(bits).resize(each.shown, Image.Resampling.NEAREST),
    )


def _moved(thing: Object, point: Any, mask: Any = None) -> Object:
    """Apply two functions to the points (N, 2) and the mask (H, W) of an object."""
    box = thing.box
    if box is not None:
        x, y, width, height = box
        corners = point(np.array([[x, y], [x + width, y + height]]))
        low = corners.min(0)
        sides = corners.max(0) - low
        box = (*low.tolist(), *sides.tolist())

    segmentation = thing.segmentation
    if isinstance(segmentation, dict):
        height, width = segmentation["size"]
        bits = np.asfortranarray(mask(object_mask(segmentation, width, height)), np.uint8)
        code = run_lengths.encode(bits)
        segmentation = {"size": list(bits.shape), "counts": code["counts"].decode()}
    elif segmentation:
        segmentation = [point(_points(polygon)).ravel().tolist() for polygon in segmentation]
    return replace(thing, box=box, segmentation=segmentation)


def _points(polygon: Sequence[float]) -> NDArray[Any]:
    return np.reshape(polygon[: len(polygon) // 2 * 2], (-1, 2))


def _px(size: Any) -> str:
    return "{} x {} px".format(*size)
