"""What is wrong with labels, found before the training: errors that stop it, and warnings."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...console.progress import watch
from ...console.wording import counted
from ...errors import UserValueError
from ..image_opening import open_image
from .labelled_images import LabelledData, LabelledImage, Object

LEAST_TRAIN = 2
"""Images of a training: the statistics of one say nothing."""
FEW_VAL = 10
"""Below so many images to validate with, a score is chance."""
_MOST_NAMED = 5
_ORIENTATION = 0x0112
_TURNED = (5, 6, 7, 8)
"""EXIF orientations that swap width and height."""


def check_labels(data: LabelledData, task: str, *, measured: bool = True) -> LabelledData:
    """Check the labels of a task, and return them with all warnings.

    Where the images are ``measured``, they get their sizes, and boxes and polygons are in pixels;
    for 'detect' objects without area inside their image are left out.
    """
    doubled = [name for name, count in Counter(data.classes).items() if count > 1]
    if doubled:
        raise UserValueError(
            "each class must have a name of its own, but several are called "
            f"{doubled[0]!r}; rename them, or join them."
        )
    _check_each_has_labels(data, "one")
    if task == "detect" and any(thing.box is None for thing in data.objects):
        raise UserValueError(
            "each object must have a box (bbox) to be detected, but some have none; add them, or "
            "task classify (--task classify) needs none."
        )
    if len(data.train) < LEAST_TRAIN:
        raise UserValueError(
            f"a training needs at least {LEAST_TRAIN} images, but train has {len(data.train)}; "
            "label more, or move some from val."
        )
    both = {image.path for image in data.train} & {image.path for image in data.val}
    if both:
        raise UserValueError(
            f"no image may be in train and in val, but {len(both)} are, for example "
            f"{min(both)}; take them out of one."
        )
    if measured:
        everything = [*data.train, *data.val]
        sized = [_with_size(image) for image in watch(everything, "reading sizes")]
        if task == "detect":
            sized = _without_odd_boxes(sized, data.warnings)
        data = replace(data, train=sized[: len(data.train)], val=sized[len(data.train) :])
        _check_each_has_labels(data, "a box with an area inside it")
    return replace(data, warnings=[*data.warnings, *_warnings(data, task)])


def _check_each_has_labels(data: LabelledData, what: str) -> None:
    for name, images in (("train", data.train), ("val", data.val)):
        if not any(image.labels for image in images):
            raise UserValueError(
                f"each split must have labels, but none of the {len(images)} images of {name} has "
                f"{what}; label some, or let the splits be drawn from all images."
            )


def _warnings(data: LabelledData, task: str) -> list[str]:
    found = []
    in_train, in_val = data.count(data.train), data.count(data.val)
    lacking = [
        f"{name} ({known} and {shown})"
        for name, known, shown in zip(data.classes, in_train, in_val, strict=True)
        if not known or not shown
    ]
    if lacking:
        more = f" and {len(lacking) - _MOST_NAMED} more" if len(lacking) > _MOST_NAMED else ""
        found.append(
            "classes without an image in train cannot be learned, those without one in val have no "
            f"score: {', '.join(lacking[:_MOST_NAMED])}{more} (images in train and val)."
        )
    bare = sum(not image.labels for image in data.train)
    if bare:
        meant = "show none of the classes" if task == "classify" else "are not trained on"
        found.append(
            f"{bare} of {len(data.train)} images of train have no annotation: they {meant}."
        )
    objects = data.objects
    if task == "detect" and any(t.segmentation for t in objects) and not data.has_masks:
        num_bare = sum(not (thing.segmentation or thing.is_crowd) for thing in objects)
        found.append(f"{num_bare} of {len(objects)} objects have no mask: only boxes are trained.")
    if len(data.val) < FEW_VAL:
        found.append(f"val has {counted(len(data.val), 'image')}: its scores are mostly chance.")
    return found


def _with_size(image: LabelledImage) -> LabelledImage:
    try:
        with open_image(image.path) as file:
            size = file.size
            if file.getexif().get(_ORIENTATION) in _TURNED:
                size = size[::-1]
    except Exception as error:  # PIL's plugins raise many classes
        raise UserValueError(
            f"{image.path}: must be an image, but it cannot be read ({error}); replace it, or "
            "remove it and its labels."
        ) from error
    if image.mask is not None:
        with open_image(image.mask) as file:
            if file.size != size:
                raise UserValueError(
                    f"{image.mask}: a label image must have its image's size, but they are "
                    f"{file.size} and {size} (width, height); write it again at full size."
                )
    if image.in_shares:
        own = tuple(_in_pixels(thing, *size) for thing in image.objects)
        image = replace(image, objects=own, in_shares=False)
    return replace(image, size=size)


def _in_pixels(thing: Object, width: int, height: int) -> Object:
    def scaled(values: Sequence[float]) -> Any:
        return [value * (height if i % 2 else width) for i, value in enumerate(values)]

    polygons = [scaled(polygon) for polygon in thing.segmentation or ()]
    return replace(thing, box=tuple(scaled(thing.box or ())), segmentation=polygons or None)


def _without_odd_boxes(images: list[LabelledImage], warnings: list[str]) -> list[LabelledImage]:
    """Return the images with those objects whose boxes have an area inside them."""
    kept = [
        replace(image, objects=own, labels=frozenset(thing.label for thing in own))
        for image in images
        for own in [tuple(thing for thing in image.objects if _has_area(thing, *image.size))]
    ]
    num_odd = sum(len(image.objects) for image in images)
    num_odd -= sum(len(image.objects) for image in kept)
    if num_odd:
        warnings.append(f"{num_odd} boxes have no area inside their image; left out.")
    return kept


def _has_area(thing: Object, image_width: int, image_height: int) -> bool:
    x, y, width, height = thing.box or (0, 0, 0, 0)
    inside_x = min(x + width, image_width) - max(x, 0)
    inside_y = min(y + height, image_height) - max(y, 0)
    return min(width, height) >= 1 and inside_x > 0 and inside_y > 0
