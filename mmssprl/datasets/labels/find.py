"""Find the layout of labelled images, read them, and report errors and warnings."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...console.wording import counted
from ...errors import UserFileNotFoundError, UserValueError
from . import coco_file, folders, masks, unread, voc, yolo
from .broken import refuse_broken
from .class_lists import warn_of_similar, without_unused_twins
from .copies import copy_warnings, with_digests
from .files import Files
from .label_maps import IGNORED, is_whole_image
from .labelled_images import (
    LabelledData,
    LabelledImage,
    Object,
    Splits,
    choose_splits,
    image_of_objects,
    joined,
)
from .sizes import measure_images
from .split_lists import with_lists

DEFAULT_VAL_SHARE = 0.2
_OF_OBJECTS = (coco_file, voc, yolo)
_BACKGROUND = "background"
_MASKS = (
    "label images (PNGs of class indices) in a folder named masks, labels, annotations or "
    "SegmentationClass, or objects with masks, other than whole images, in a COCO .json or YOLO "
    ".txt files"
)
_BOXES = "a COCO .json, PASCAL VOC .xml files or YOLO .txt files with boxes"
_EXPECTED = {
    "classify": f"{_BOXES} or without, label images, or a folder of images per class",
    "detect": _BOXES,
    "segment": _MASKS,
    "dense": _MASKS,
}
_OF_PIXELS = ("segment", "dense")
"""Tasks that need the class of each pixel."""
_LEAST_TRAIN = 2
"""Fewest training images: BatchNorm needs several."""
_FEW_VAL = 10
"""With fewer validation images, scores are mostly chance."""
_MOST_NAMED = 5


def find_labels(
    root: str | Path,
    task: str,
    *,
    val_share: float = DEFAULT_VAL_SHARE,
    seed: int = 0,
    train_share: float = 1.0,
    measured: bool = True,
) -> LabelledData:
    """Find, read and check the labels of a task in a folder.

    Args:
        root: The folder, or its data.yaml or COCO .json.
        task: 'classify', 'detect', 'segment' or 'dense'. The last two read label images, or objects
            of which some have masks; 'dense' accepts images that cannot be read.
        val_share: As ``share`` of ``choose_splits``.
        seed: As in ``choose_splits``, in [0, 2**32).
        train_share: As in ``choose_splits``.
        measured: Open each image for its size and compare it with the labels; decode it, except
            for 'dense'.

    Raises:
        FileNotFoundError: There are no labels, or images are missing.
        ValueError: The labels cannot be read or trained with.
    """
    if not 0 <= seed < 2**32:
        raise UserValueError(f"seed must be from 0 to {2**32 - 1}, but got {seed}.")
    files = Files(root)
    layout, found = _find(files, task)
    warnings: list[str] = []
    classes, splits = layout.read(files, found, warnings)
    splits = {split: joined(images, warnings) for split, images in splits.items()}
    if layout is not masks:
        classes, splits = without_unused_twins(classes, splits, warnings)
    warn_of_similar(classes, warnings)
    splits, unused = with_lists(files, splits, warnings)
    if layout is masks and task == "classify":
        classes, splits = _shown(classes, splits)
    drawn = layout is not masks and task in _OF_PIXELS
    lacking = (
        f"the objects of {files.root} ({layout.TITLE}) have no masks for {task}; add {_MASKS}."
    )
    if drawn:
        classes, splits = _before_background(classes, splits)
        if not any(image.labels for images in splits.values() for image in images):
            raise UserFileNotFoundError(lacking)
    splits = with_digests(splits)
    train, val, how = choose_splits(splits, share=val_share, seed=seed, train_share=train_share)
    data = LabelledData(files.root, layout.TITLE, classes, train, val, how + unused, warnings)
    if layout is voc and task == "detect" and any(thing.box is None for thing in data.objects):
        voc.require_boxes(found)
    data = _check(data, task, measured=measured)
    if drawn and measured:
        images = (*data.train, *data.val)
        shapes = ((each, x) for each in images for x in each.objects if x.segmentation)
        if all(is_whole_image(x, *each.size) for each, x in shapes):
            raise UserFileNotFoundError(lacking)
    return data


def _find(files: Files, task: str) -> tuple[Any, Any]:
    """Return the module of the layout, and what its ``find`` returned.

    Each module has a ``TITLE``, ``find(files)``, empty for another layout, and ``read(files, found,
    warnings)``, which returns the classes and the images.
    """
    found = [(layout, content) for layout in _OF_OBJECTS if (content := layout.find(files))]
    may_show = task in _OF_PIXELS or (task == "classify" and not found)
    if may_show and (content := masks.find(files)):
        return masks, content
    if not found and task == "classify" and (content := folders.find(files)):
        return folders, content
    if not found:
        raise UserFileNotFoundError(
            coco_file.near_miss(files)
            or yolo.near_miss(files)
            or masks.near_miss(files)
            or unread.near_miss(files)
            or f"{files.root} has no labels for {task} among {counted(len(files.names), 'file')} "
            f"({counted(len(files.images), 'image')}); add {_EXPECTED[task]}."
        )
    if len(found) > 1:
        titles = " and ".join(layout.TITLE for layout, _ in found)
        raise UserValueError(
            f"the data must have one layout, but {files.root} has {titles}; give the folder of one."
        )
    return found[0]


def _before_background(classes: list[str], splits: Splits) -> tuple[list[str], Splits]:
    """Insert a first class for the background, and label images by the objects with masks."""
    if len(classes) >= IGNORED:
        raise UserValueError(
            f"segmentation takes at most {IGNORED - 1} classes and the background, but the data "
            f"have {len(classes)}."
        )

    def moved(image: LabelledImage) -> LabelledImage:
        objects = tuple(replace(thing, label=thing.label + 1) for thing in image.objects)
        labels = frozenset(x.label for x in objects if x.segmentation and not x.is_crowd)
        return replace(image, objects=objects, labels=labels)

    background = "no object" if _BACKGROUND in classes else _BACKGROUND
    return [background, *classes], {split: [*map(moved, own)] for split, own in splits.items()}


def _shown(classes: list[str], splits: Splits) -> tuple[list[str], Splits]:
    """Return the classes and images labelled by what label images show, without a background."""
    first = int(classes[0].lower() == _BACKGROUND)

    def shown(image: LabelledImage) -> LabelledImage:
        labels = sorted(label - first for label in image.labels if label >= first)
        return image_of_objects(image.path, map(Object, labels))

    return classes[first:], {split: [*map(shown, own)] for split, own in splits.items()}


def _check(data: LabelledData, task: str, *, measured: bool) -> LabelledData:
    """Check the labels of a task, and return those to train with, and all warnings."""
    doubled = [name for name, count in Counter(data.classes).items() if count > 1]
    if doubled:
        raise UserValueError(
            f"classes must have different names, but several are called {doubled[0]!r}; "
            "rename or merge them."
        )
    _check_each_has_labels(data, "one")
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
    warnings = [*data.warnings, *copy_warnings(data)]
    if measured:
        may_skip = task == "dense"
        placed = task != "classify"
        images = [*data.train, *data.val]
        if not may_skip:
            refuse_broken([image.path for image in images])
        images = measure_images(images, warnings, may_skip=may_skip, placed=placed)
        if task == "detect":
            images = _without_odd_boxes(images, data.classes, warnings)
        data = replace(data, train=images[: len(data.train)], val=images[len(data.train) :])
        _check_each_has_labels(data, "a box with an area inside it")
    warnings += _warnings(data, task)
    train = data.train
    if task == "detect":
        train = [image for image in data.train if image.has_scored]
        _check_enough(train, " that show more than crowds (iscrowd, difficult)")
        if crowds := sum(bool(image.objects) and not image.has_scored for image in data.train):
            warnings.append(
                f"{crowds} of {len(data.train)} images of train show only crowds: not trained on."
            )
        if not any(image.has_scored for image in data.val):
            warnings.append("val shows only crowds: it has no score.")
    return replace(data, train=train, warnings=warnings)


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


def _warnings(data: LabelledData, task: str) -> list[str]:
    found = []
    counts = zip(data.classes, data.count(data.train), data.count(data.val), strict=True)
    lacking = [
        f"{name} ({known} and {shown})"
        for name, known, shown in [*counts][task in _OF_PIXELS :]  # without the background
        if not known or not shown
    ]
    if lacking:
        more = ", ..." if len(lacking) > _MOST_NAMED else ""
        found.append(
            "classes without images in train are not learned, those without images in val have no "
            f"score: {', '.join(lacking[:_MOST_NAMED])}{more} (images in train and val)."
        )
    for split, images in (("train", data.train), ("val", data.val)):
        bare = sum(not image.labels for image in images)
        if bare and task not in _OF_PIXELS:
            found.append(f"{bare} of {len(images)} images of {split} have no annotation.")
    if task == "detect" and any(t.segmentation for t in data.objects) and not data.has_masks:
        found.append("some objects have no mask: only boxes are trained.")
    if len(data.val) < _FEW_VAL:
        found.append(f"val has {counted(len(data.val), 'image')}: its scores are mostly chance.")
    return found


def _without_odd_boxes(
    images: list[LabelledImage], classes: Sequence[str], warnings: list[str]
) -> list[LabelledImage]:
    """Return the images without the objects whose boxes have no area inside them."""
    kept = []
    odd = []
    for image in images:
        own = [thing for thing in image.objects if _has_area(thing, *image.size)]
        kept.append(replace(image_of_objects(image.path, own), size=image.size))
        if len(own) < len(image.objects):
            lost = [thing for thing in image.objects if not _has_area(thing, *image.size)]
            odd += [f"{classes[thing.label]} in {image.path}" for thing in lost]
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
