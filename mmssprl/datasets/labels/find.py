"""Which layout a folder has, what it holds, and what is wrong with it: errors, and warnings."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...console.wording import counted
from ...errors import UserFileNotFoundError, UserValueError
from . import coco, folders, masks, voc, yolo
from .files import Files
from .label_maps import IGNORED, is_whole_image
from .labelled_images import LabelledData, LabelledImage, Object, Splits, choose_splits, joined
from .sizes import measure

DEFAULT_VAL_SHARE = 0.2
_OF_OBJECTS = (coco, voc, yolo)
_BACKGROUND = "background"
_MASKS = (
    "label images (PNGs of class indices) in a folder named masks, labels, annotations or "
    "SegmentationClass, or objects with masks, other than whole images, in a COCO .json or YOLO "
    ".txt files"
)
_EXPECTED = {
    "classify": "a COCO .json, PASCAL VOC .xml files, YOLO .txt files, label images, or a folder "
    "of images per class",
    "detect": "a COCO .json, PASCAL VOC .xml files or YOLO .txt files with boxes",
    "segment": _MASKS,
    "dense": _MASKS,
}
OF_PIXELS = ("segment", "dense")
"""Tasks that need the class of each pixel."""
LEAST_TRAIN = 2
"""Images of a training: the statistics of one say nothing."""
FEW_VAL = 10
"""Below so many images to validate with, a score is chance."""
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
    """Find the labels of a task below a folder, read all of them, and check them.

    ``task`` is 'classify', 'detect', or 'segment': label images, or else objects of which some have
    a mask; 'dense' is the same but for images that cannot be read, which keep no size. The shares
    and the seed are those of ``choose_splits``. ``measured`` opens each image for its size; it
    may differ for 'classify'. Raises FileNotFoundError for labels that are not there or lack their
    image, ValueError for those that nothing can be trained with.
    """
    if not 0 <= seed < 2**32:
        raise UserValueError(f"seed must be from 0 to {2**32 - 1}, but got {seed}.")
    files = Files(root)
    layout, found = _find(files, task)
    warnings: list[str] = []
    classes, splits = layout.read(files, found, warnings)
    splits = {split: joined(images, warnings) for split, images in splits.items()}
    drawn = layout is not masks and task in OF_PIXELS
    if layout is masks and task == "classify":
        classes, splits = _shown(classes, splits)
    if drawn:
        classes, splits = _before_background(classes, splits)
        if not any(image.labels for images in splits.values() for image in images):
            raise _no_masks(files, layout, task)
    train, val, how = choose_splits(splits, share=val_share, seed=seed, train_share=train_share)
    data = LabelledData(files.root, layout.TITLE, classes, train, val, how, warnings)
    data = _check(data, task, measured=measured)
    if drawn and measured:
        images = (*data.train, *data.val)
        shapes = ((each, x) for each in images for x in each.objects if x.segmentation)
        if all(is_whole_image(x, *each.size) for each, x in shapes):
            raise _no_masks(files, layout, task)
    return data


def _find(files: Files, task: str) -> tuple[Any, Any]:
    """Return the module of the one layout with labels of a task, and what it has found.

    Each has a ``TITLE``, ``find(files)``, which returns nothing for another layout, and
    ``read(files, found, warnings)``, the classes and images of what that returned.
    """
    found = [(layout, content) for layout in _OF_OBJECTS if (content := layout.find(files))]
    if task in OF_PIXELS or (task == "classify" and not found):
        shown = masks.find(files)
        if masks.are_of_images(files, shown):
            return masks, shown
    if not found and task == "classify" and (content := folders.find(files)):
        return folders, content
    if not found:
        raise _no_labels(files, task)
    if len(found) > 1:
        titles = " and ".join(layout.TITLE for layout, _ in found)
        raise UserValueError(
            f"the data must have one layout, but {files.root} has {titles}; give the folder of one."
        )
    return found[0]


def _no_labels(files: Files, task: str) -> UserFileNotFoundError:
    if near := next(filter(None, (each.near_miss(files) for each in (coco, yolo, masks))), ""):
        return UserFileNotFoundError(f"{near}.")
    return UserFileNotFoundError(
        f"the data must hold labels for {task}: {_EXPECTED[task]}; but {files.root} holds none "
        f"among {counted(len(files.names), 'file')} ({counted(len(files.images), 'image')}); "
        "export them as COCO, which most tools write."
    )


def _no_masks(files: Files, layout: Any, task: str) -> UserFileNotFoundError:
    return UserFileNotFoundError(
        f"the data must hold labels for {task}: {_MASKS}; but the objects of "
        f"{files.root} ({layout.TITLE}) have no such masks; add them."
    )


def _before_background(classes: list[str], splits: Splits) -> tuple[list[str], Splits]:
    """Put a class for the pixels of no object first, and label images by what has a mask."""

    def moved(image: LabelledImage) -> LabelledImage:
        objects = tuple(replace(thing, label=thing.label + 1) for thing in image.objects)
        labels = frozenset(x.label for x in objects if x.segmentation and not x.is_crowd)
        return replace(image, objects=objects, labels=labels)

    found = {split: list(map(moved, images)) for split, images in splits.items()}
    if len(classes) >= IGNORED:
        raise UserValueError(
            f"label maps hold at most {IGNORED - 1} classes beside the background, but the data "
            f"have {len(classes)}; leave some out."
        )
    return ["no object" if _BACKGROUND in classes else _BACKGROUND, *classes], found


def _shown(classes: list[str], splits: Splits) -> tuple[list[str], Splits]:
    """Return classes and images, labelled with what their label images show but a background."""
    first = int(classes[0].lower() == _BACKGROUND)

    def shown(image: LabelledImage) -> LabelledImage:
        labels = frozenset(label - first for label in image.labels if label >= first)
        objects = tuple(map(Object, sorted(labels)))
        return replace(image, mask=None, objects=objects, labels=labels)

    return classes[first:], {split: list(map(shown, images)) for split, images in splits.items()}


def _check(data: LabelledData, task: str, *, measured: bool) -> LabelledData:
    """Check the labels of a task, and return them with all warnings.

    ``measured`` images get their sizes, and boxes in pixels; for 'detect' those without area go.
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
            "take the task classify."
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
        sized = measure(
            [*data.train, *data.val],
            data.warnings,
            may_skip=task == "dense",
            placed=task != "classify",
        )
        if task == "detect":
            sized = _without_odd_boxes(sized, data.warnings)
        data = replace(data, train=sized[: len(data.train)], val=sized[len(data.train) :])
        _check_each_has_labels(data, "a box with an area inside it")
    data = replace(data, warnings=[*data.warnings, *_warnings(data, task)])
    return _without_crowds_alone(data) if task == "detect" else data


def _without_crowds_alone(data: LabelledData) -> LabelledData:
    """Return the data with those images of train that a detector is trained on."""
    kept = [image for image in data.train if image.has_scored]
    if len(kept) < LEAST_TRAIN:
        raise UserValueError(
            f"a training needs at least {LEAST_TRAIN} images with an object that is no crowd "
            f"(iscrowd, difficult), but of {len(data.train)} images of train {len(kept)} have one; "
            "label more, or mark less."
        )
    warnings = list(data.warnings)
    crowds = sum(bool(image.objects) and not image.has_scored for image in data.train)
    if crowds:
        warnings.append(
            f"{crowds} of {len(data.train)} images of train show only crowds: not trained on."
        )
    if not any(image.has_scored for image in data.val):
        warnings.append("val shows only crowds: it has no score.")
    return replace(data, train=kept, warnings=warnings)


def _check_each_has_labels(data: LabelledData, what: str) -> None:
    for name, images in (("train", data.train), ("val", data.val)):
        if not any(image.labels for image in images):
            raise UserValueError(
                f"each split must have labels, but none of the {len(images)} images of {name} has "
                f"{what}; label some, or let the splits be drawn from all images."
            )


def _warnings(data: LabelledData, task: str) -> list[str]:
    found = []
    counts = zip(data.classes, data.count(data.train), data.count(data.val), strict=True)
    lacking = [
        f"{name} ({known} and {shown})"
        for name, known, shown in [*counts][task in OF_PIXELS :]  # no object is the background
        if not known or not shown
    ]
    if lacking:
        more = ", ..." if len(lacking) > _MOST_NAMED else ""
        found.append(
            "classes without an image in train cannot be learned, those without one in val have no "
            f"score: {', '.join(lacking[:_MOST_NAMED])}{more} (images in train and val)."
        )
    bare = sum(not image.labels for image in data.train)
    if bare and task not in OF_PIXELS:
        found.append(f"{bare} of {len(data.train)} images of train have no annotation.")
    if task == "detect" and any(t.segmentation for t in data.objects) and not data.has_masks:
        found.append("some objects have no mask: only boxes are trained.")
    if len(data.val) < FEW_VAL:
        found.append(f"val has {counted(len(data.val), 'image')}: its scores are mostly chance.")
    return found


def _without_odd_boxes(images: list[LabelledImage], warnings: list[str]) -> list[LabelledImage]:
    """Return the images with those objects whose boxes have an area inside them."""
    kept = []
    for image in images:
        own = tuple(thing for thing in image.objects if _has_area(thing, *image.size))
        kept.append(replace(image, objects=own, labels=frozenset(thing.label for thing in own)))
    num_odd = sum(len(a.objects) - len(b.objects) for a, b in zip(images, kept, strict=True))
    if num_odd:
        warnings.append(f"{num_odd} boxes have no area inside their image; left out.")
    return kept


def _has_area(thing: Object, image_width: int, image_height: int) -> bool:
    x, y, width, height = thing.box or (0, 0, 0, 0)
    inside_x = min(x + width, image_width) - max(x, 0)
    inside_y = min(y + height, image_height) - max(y, 0)
    return min(width, height) >= 1 and inside_x > 0 and inside_y > 0
