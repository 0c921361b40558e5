"""Check the labels of a task, and warn of what its scores may suffer from."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ...console.wording import counted
from ...errors import UserValueError
from .broken import refuse_broken
from .copies import copy_warnings
from .labelled_images import LabelledData, LabelledImage, Object, image_of_objects
from .sizes import measure_images
from .split_names import TRAIN, VAL

OF_PIXELS = ("segment", "dense")
"""Tasks that need the class of each pixel."""
_LEAST_TRAIN = 2
"""Fewest training images: BatchNorm needs several."""
_FEW_VAL = 10
"""With fewer validation images, scores are mostly chance."""
_MOST_NAMED = 5
_MOST_CROWDS = {"COCO": 0.05, "PASCAL VOC": 0.5}
"""Fraction of crowds or "difficult" objects above which they may be a mistake, by layout. COCO
itself has 0.01, VOC 0.2."""


def check_labels(data: LabelledData, task: str, *, measured: bool) -> LabelledData:
    """Check the labels of a task; return the images to train with, and all warnings.

    ``measured``: also open and decode the images, as ``find_labels`` does.
    """
    doubled = [name for name, count in Counter(data.classes).items() if count > 1]
    if doubled:
        raise UserValueError(
            f"classes must have different names, but several are called {doubled[0]!r}; "
            "rename or merge them."
        )

    _check_each_has_labels(data, "one")
    if task == "classify":
        _check_some_are_known(data)
    if task == "detect" and any(thing.box is None for thing in data.objects):
        raise UserValueError(
            "detect needs a box for each object, but some have none; add them, or use --task "
            "classify."
        )
    _check_enough(data.train)

    both = {image.path for image in data.train} & {image.path for image in data.val}
    if both:
        raise UserValueError(
            f"no image may be in train and in val, but {len(both)} are, for example "
            f"{min(both)}; remove them from one."
        )

    data = replace(data, warnings=[*data.warnings, *copy_warnings(data)])
    if measured:
        data = _measure(data, task)
    data.warnings.extend(_warnings(data, task))
    return _without_crowds(data) if task == "detect" else data


def _measure(data: LabelledData, task: str) -> LabelledData:
    """Return the images with their sizes, and objects in pixels of them."""
    may_skip = task == "dense"
    if not may_skip:
        refuse_broken([image.path for image in data.images], data.warnings)
    placed = task != "classify"
    images = measure_images(data.images, data.warnings, may_skip=may_skip, placed=placed)
    if task == "detect":
        images = _without_odd_boxes(images, data.classes, data.warnings)
    data = replace(data, train=images[: len(data.train)], val=images[len(data.train) :])
    _check_each_has_labels(data, "a box with an area inside it")
    return data


def _without_crowds(data: LabelledData) -> LabelledData:
    """Return the data without the training images that detection cannot learn from."""
    train = [image for image in data.train if image.has_scored]
    _check_enough(train, " that show more than crowds (iscrowd, ignore, difficult)")
    if crowds := sum(bool(image.objects) and not image.has_scored for image in data.train):
        data.warnings.append(
            f"{crowds} of {len(data.train)} images of train show only crowds: not trained on."
        )
    if not any(image.has_scored for image in data.val):
        data.warnings.append("val shows only crowds: it has no score.")
    return replace(data, train=train)


def _check_enough(images: Sequence[LabelledImage], what: str = "") -> None:
    if len(images) < _LEAST_TRAIN:
        raise UserValueError(
            f"training needs at least {_LEAST_TRAIN} images{what}, but train has {len(images)}; "
            "label more, or move some from val."
        )


def _check_each_has_labels(data: LabelledData, what: str) -> None:
    for name, images in (("train", data.train), ("val", data.val)):
        if not any(image.labels for image in images):
            raise UserValueError(
                f"each split must have labels, but none of the {len(images)} images of {name} has "
                f"{what}; label some, or remove the split."
            )


def _check_some_are_known(data: LabelledData) -> None:
    for name, images in (("train", data.train), ("val", data.val)):
        if not any(image.known for image in images):
            raise UserValueError(
                f"each split must show some class, but the {len(images)} images of {name} show "
                "only difficult objects, which are ignored; set difficult to 0 if these are "
                "ordinary objects."
            )


def _warnings(data: LabelledData, task: str) -> list[str]:
    found = _of_lacking_classes(data, task)
    for split, images in ((TRAIN, data.train), (VAL, data.val)):
        bare = sum(not image.labels and image.mask is None for image in images)
        if bare:
            is_unused = task == "detect" and split == TRAIN
            effect = ": detection does not learn from them" if is_unused else ""
            if task in OF_PIXELS:
                effect = ": each of their pixels is background, or ignored"
            found.append(f"{bare} of {len(images)} images of {split} have no annotation{effect}.")

    # A class is not absent where it is unknown.
    everywhere = frozenset.intersection(*(image.labels for image in data.val))
    in_val = data.count(data.val)
    constant = [data.classes[label] for label in sorted(everywhere) if in_val[label]]
    if task == "classify" and constant and not data.is_single_label:
        more = ", ..." if len(constant) > _MOST_NAMED else ""
        found.append(
            f"every image of val shows {', '.join(constant[:_MOST_NAMED])}{more}: the average "
            "precision of such a class is 100 % for any weights; add images without it."
        )

    crowds = sum(thing.is_crowd for thing in data.objects)
    if task != "classify" and crowds > _MOST_CROWDS.get(data.layout, 1) * len(data.objects):
        found.append(
            f"{crowds} of {len(data.objects)} objects are marked as crowds, ignored or difficult: "
            "they are neither learned nor scored. Tools mark masks of a brush so; set iscrowd and "
            "ignore (COCO) or difficult (VOC) to 0 if these are ordinary objects."
        )
    if task == "detect" and any(t.segmentation for t in data.objects) and not data.has_masks:
        found.append("some objects have no mask: only boxes are trained.")
    if len(data.val) < _FEW_VAL:
        found.append(f"val has {counted(len(data.val), 'image')}: its scores are mostly chance.")
    return found


def _of_lacking_classes(data: LabelledData, task: str) -> list[str]:
    """Return a warning of the classes that a split lacks; ValueError if no folder is in both."""
    counts = [*zip(data.classes, data.count(data.train), data.count(data.val), strict=True)]
    if task in OF_PIXELS:
        del counts[0]  # of the background
    lacking = [
        f"{name} ({known} and {shown})" for name, known, shown in counts if not known or not shown
    ]
    if not lacking:
        return []

    more = ", ..." if len(lacking) > _MOST_NAMED else ""
    named = f"{', '.join(lacking[:_MOST_NAMED])}{more} (images in train and val)"
    if data.is_single_label and len(lacking) == len(counts):
        raise UserValueError(
            f"train and val must have folders of the same classes, but share none: {named}; sort "
            "the images of val into the classes of train, or move them out of the data."
        )
    return [
        "classes without images in train are not learned, those without images in val have no "
        f"score: {named}."
    ]


def _without_odd_boxes(
    images: list[LabelledImage], classes: Sequence[str], warnings: list[str]
) -> list[LabelledImage]:
    """Return the images without boxes that have no area inside them."""
    kept = []
    odd = []
    for image in images:
        own = []
        for thing in image.objects:
            if _has_area(thing, *image.size):
                own.append(thing)
            else:
                odd.append(f"{classes[thing.label]} in {image.path}")
        kept.append(replace(image_of_objects(image.path, own), size=image.size))
    if odd:
        warnings.append(
            f"{len(odd)} boxes have no area inside their image, for example {odd[0]}; left out."
        )
    return kept


def _has_area(thing: Object, image_width: int, image_height: int) -> bool:
    x, y, width, height = thing.box or (0, 0, 0, 0)
    inside_x = min(x + width, image_width) - max(x, 0)
    inside_y = min(y + height, image_height) - max(y, 0)
    return min(width, height) >= 1 and inside_x > 0 and inside_y > 0
