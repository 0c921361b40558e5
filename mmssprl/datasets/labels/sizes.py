"""The sizes of images beside those that their labels say: labels of another frame are fitted.

A *frame* is the width and height (px) in which boxes and masks are counted: a file may say that of
the pixels as they are stored, before the EXIF turn, or of images that were scaled since.
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
from ..image_reading import ImageReadError, open_image
from .label_maps import draw_mask
from .labelled_images import LabelledImage, Object

Size = tuple[int, int]
_ORIENTATION = 0x0112
_POINTS_OF = {5: "yx", 6: "Yx", 7: "YX", 8: "yX"}
"""x and y of a turned image by those of the stored one: a capital counts from the far side."""
_BEYOND = 0.1
"""Share of a side by which careless corners of boxes and polygons may lead out of the image."""
_MOST_BEYOND = 0.1
"""Share of the images with boxes that lead out further: more are labels of other images."""


@dataclass(frozen=True)
class _Opened:
    """An image with its sizes; ``orientation`` is EXIF's, 0 for one that is not turned by 90°."""

    image: LabelledImage
    stored: Size
    shown: Size
    orientation: int
    frame: Size | None
    """Of its labels, None where they do not say it."""

    def reaches_beyond(self, size: Size) -> bool:
        """Whether a box or a polygon leads out of a size, by more than rounding."""
        extent = _extent(self.image.objects)
        return any(far > 1.02 * side + 1 for far, side in zip(extent, size, strict=True))


def measure(
    images: Sequence[LabelledImage],
    warnings: list[str],
    *,
    may_skip: bool = False,
    placed: bool = True,
) -> list[LabelledImage]:
    """Open each image for its size, and return boxes and masks in pixels of the image as shown.

    Labels of the stored pixels are turned with their images (EXIF 5 to 8), and those of images
    that were scaled by one factor are scaled, with a warning. Images that cannot be read keep a
    size of 0, 0 if they ``may_skip``. ``placed`` says whether boxes and masks are used.

    Raises:
        ImageReadError: An image that cannot be read.
        ValueError: Labels of images of another size, or a label image of another size than its own.
    """
    opened, skipped = [], {}
    for number, image in enumerate(watch(images, "reading sizes")):
        try:
            opened.append((number, _open(image)))
        except ImageReadError:
            if not may_skip:
                raise
            skipped[number] = image
    fitted = _fit([each for _, each in opened], warnings)
    if placed:
        _check_extents(fitted)
    found = {number: image for (number, _), image in zip(opened, fitted, strict=True)} | skipped
    return [found[number] for number in range(len(images))]


def _open(image: LabelledImage) -> _Opened:
    with open_image(image.path) as file:
        stored, orientation = file.size, file.getexif().get(_ORIENTATION)
    shown = stored[::-1] if orientation in _POINTS_OF else stored
    if image.mask is not None:
        with open_image(image.mask) as file:
            if file.size != shown:
                raise UserValueError(
                    f"{image.mask}: a label image must have its image's size, but they are "
                    f"{file.size} and {shown} (width, height); write it again at full size."
                )
    if image.in_shares:
        objects = tuple(_moved(thing, lambda xy: xy * shown) for thing in image.objects)
        image = replace(image, objects=objects, in_shares=False)
    masks = [x.segmentation for x in image.objects if isinstance(x.segmentation, dict)]
    frames = {(mask["size"][1], mask["size"][0]) for mask in masks}
    is_rounded = all(abs(said - px) <= 1 for said, px in zip(image.frame, shown, strict=True))
    frames |= {shown if is_rounded else image.frame} if all(image.frame) else set()
    if len(frames) > 1:
        raise UserValueError(
            f"{image.path}: its labels must be of one size, but sizes and run lengths say "
            f"{' and '.join(map(_px, sorted(frames)))}; repair the annotation file."
        )
    turned = orientation if orientation in _POINTS_OF else 0
    return _Opened(image, stored, shown, turned, frames.pop() if frames else None)


def _fit(opened: Sequence[_Opened], warnings: list[str]) -> list[LabelledImage]:
    turned = {id(each) for each in _labelled_before_turn(opened)}
    others = [
        each
        for each in opened
        if each.frame not in (None, each.shown)
        and not (each.orientation and each.frame == each.stored)
    ]
    _check_scale(others, len(opened))
    scaled = {id(each) for each in others}
    if turned:
        warnings.append(
            f"{len(turned)} of {len(opened)} images have labels of the stored pixels, before the "
            "EXIF turn: they are turned with the images."
        )
    if scaled:
        was, now = others[0].frame, others[0].shown
        warnings.append(
            f"{len(scaled)} of {len(opened)} images have labels of another size, for example "
            f"{_px(was)} for {_px(now)}: they are scaled with the images."
        )
    found = []
    for each in opened:
        objects = each.image.objects
        if id(each) in turned:
            objects = tuple(_turn(thing, each) for thing in objects)
        elif id(each) in scaled:
            objects = tuple(_scale(thing, each) for thing in objects)
        found.append(replace(each.image, objects=objects, size=each.shown, frame=(0, 0)))
    return found


def _labelled_before_turn(opened: Sequence[_Opened]) -> list[_Opened]:
    """Return the turned images whose labels are of the stored pixels.

    What reaches out of one of both frames says it for all; else the sizes that the labels say.
    """
    turned = [each for each in opened if each.orientation and each.stored != each.shown]
    is_stored = any(
        each.reaches_beyond(each.shown) and not each.reaches_beyond(each.stored) for each in turned
    )
    is_shown = any(
        each.reaches_beyond(each.stored) and not each.reaches_beyond(each.shown) for each in turned
    )
    if is_stored and is_shown:
        raise UserValueError(
            "labels must be of the images as they are shown, or all of them of the stored pixels, "
            f"but the {len(turned)} images that EXIF turns have both; export the labels again."
        )
    says_stored = [each for each in turned if each.frame == each.stored]
    return (turned if is_stored else []) if is_stored or is_shown else says_stored


def _check_scale(others: Sequence[_Opened], total: int) -> None:
    """Refuse labels of another size unless one factor makes it the images'."""
    low, high = 0.0, float("inf")
    for each in others:
        for said, px in zip(each.frame or (), each.shown, strict=True):
            low, high = max(low, (px - 1) / said), min(high, (px + 1) / said)
    shrunk = any(each.frame and each.frame[0] > each.shown[0] for each in others)
    boxes = [each for each in others if any(_extent(each.image.objects))]
    # Sizes may lie where boxes do not: a placeholder in every entry.
    fits = not any(each.frame and each.reaches_beyond(each.frame) for each in boxes) and (
        not shrunk or not boxes or any(each.reaches_beyond(each.shown) for each in boxes)
    )
    if others and not (low <= high and fits):
        each = others[0]
        raise UserValueError(
            f"labels must be of the size of their images, but of {total} images {len(others)} have "
            f"others, for example {each.image.path}: the labels say {_px(each.frame)}, the image "
            f"has {_px(each.shown)}; take the images that were labelled, or correct the sizes (0 "
            "where they are unknown)."
        )


def _check_extents(images: Sequence[LabelledImage]) -> None:
    """Raise ValueError if polygons of an image, or boxes of many, lead far out of theirs."""
    for what, boxes, most in (("a polygon", False, 0.0), ("a box", True, _MOST_BEYOND)):
        beyond = [each for each in images if _leads_out(_extent(each.objects, boxes=boxes), each)]
        if len(beyond) > most * len(images) + (most > 0):
            image = beyond[0]
            x, y = _extent(image.objects, boxes=boxes)
            raise UserValueError(
                f"labels must lie in their images, but {len(beyond)} of {len(images)} have "
                f"{what} that leads out, for example {image.path} of {_px(image.size)} one that "
                f"reaches to {x:g}, {y:g}; take the images that were labelled, or scale the labels."
            )


def _leads_out(extent: tuple[float, float], image: LabelledImage) -> bool:
    return any(far > (1 + _BEYOND) * side for far, side in zip(extent, image.size, strict=True))


def _extent(objects: Iterable[Object], *, boxes: bool = True) -> tuple[float, float]:
    """Return the largest x and y of boxes and polygons."""
    points: list[NDArray[Any]] = [np.zeros((1, 2))]
    for thing in objects:
        if boxes and thing.box is not None:
            points.append(np.array([[thing.box[0] + thing.box[2], thing.box[1] + thing.box[3]]]))
        if isinstance(thing.segmentation, list):
            points += map(_points, thing.segmentation)
    x, y = np.concatenate(points).max(0)
    return float(x), float(y)


def _turn(thing: Object, each: _Opened) -> Object:
    code = _POINTS_OF[each.orientation]

    def point(xy: NDArray[Any]) -> NDArray[Any]:
        axes = {"x": xy[:, 0], "y": xy[:, 1]}
        axes |= {"X": each.stored[0] - xy[:, 0], "Y": each.stored[1] - xy[:, 1]}
        return np.stack([axes[code[0]], axes[code[1]]], 1)

    def mask(bits: NDArray[np.bool_]) -> NDArray[np.bool_]:
        rows, columns = (slice(None, None, -1 if letter.isupper() else 1) for letter in code)
        return bits[rows, columns].T  # the new x runs along the old y

    return _moved(thing, point, mask)


def _scale(thing: Object, each: _Opened) -> Object:
    factors = np.divide(each.shown, each.frame or each.shown)

    def mask(bits: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.asarray(Image.fromarray(bits).resize(each.shown, Image.Resampling.NEAREST))

    return _moved(thing, lambda xy: xy * factors, mask)


def _moved(thing: Object, point: Any, mask: Any = None) -> Object:
    """Return an object whose points (N, 2) and mask (H, W) were moved by two functions."""
    box, segmentation = thing.box, thing.segmentation
    if box is not None:
        x, y, width, height = box
        corners = point(np.array([[x, y], [x + width, y + height]]))
        low, high = corners.min(0), corners.max(0)
        box = (*low.tolist(), *(high - low).tolist())
    if isinstance(segmentation, dict):
        height, width = segmentation["size"]
        bits = np.asfortranarray(mask(draw_mask(segmentation, width, height)), np.uint8)
        code = run_lengths.encode(bits)
        segmentation = {"size": list(bits.shape), "counts": code["counts"].decode()}
    elif segmentation:
        segmentation = [point(_points(polygon)).ravel().tolist() for polygon in segmentation]
    return replace(thing, box=box, segmentation=segmentation)


def _points(polygon: Sequence[float]) -> NDArray[Any]:
    return np.reshape(polygon[: len(polygon) // 2 * 2], (-1, 2))


def _px(size: Any) -> str:
    return "{} x {} px".format(*size)
