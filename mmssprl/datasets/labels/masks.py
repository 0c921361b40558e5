"""Label images: PNGs of class indices beside the images."""

import re
from pathlib import Path

import numpy as np

from ...console.progress import watch
from ...errors import UserFileNotFoundError, UserValueError
from ..image_opening import open_image
from .files import MASK_FOLDERS, Files, is_label_image
from .labelled_images import LabelledImage
from .splits import Splits, split_of
from .voc import class_names, listed_splits

TITLE = "label images"
IGNORED = 255
"""The value of pixels that count nowhere."""
LEAST_CLASSES = 2
_IMAGE_FOLDERS = frozenset(("images", "image", "imgs", "jpegimages", "img_dir"))
_VOC_PREFERRED = ("segmentationclassaug", "segmentationclass")
_CLASS_FILES = ("classes.txt", "class_names.txt", "labelmap.txt", "labels.txt")
_SUFFIX = re.compile(r"[_-](mask|label|labels|labelids|gt)$", re.IGNORECASE)
_INDEX_MODES = ("P", "L", "1")
VOC_CLASSES = (
    *("background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat"),
    *("chair", "cow", "diningtable", "dog", "horse", "motorbike", "person", "pottedplant"),
    *("sheep", "sofa", "train", "tvmonitor"),
)


def is_there(files: Files) -> bool:
    """Whether there are PNGs in a folder that is named like one of masks, and images outside."""
    return bool(_masks(files)) and bool(files.photographs)


def read(files: Files, warnings: list[str]) -> tuple[list[str], Splits]:
    """Read the classes, and the images of all splits with the classes that each shows.

    The classes are the lines of classes.txt (index 0 first), VOC's in its folders if no XML
    file names others, or 'class 0', 'class 1', ... as many as the label images have. Pixels of 255
    count nowhere.

    Raises:
        FileNotFoundError: Label images without their image.
        ValueError: A label image of colours, of another size than its image, or with an index
            beyond the classes.
    """
    images = _by_key(files.photographs)
    masks = _by_key(_masks(files))
    lost = [name for key, name in masks.items() if key not in images]
    if lost:
        raise UserFileNotFoundError(
            f"each label image must have its image below DATA, with the same name but for the "
            f"suffix, but {len(lost)} of {len(masks)} have none, for example {lost[:3]}; copy the "
            "images there, or remove the label images."
        )
    bare = len(images) - len(masks)
    if bare:
        warnings.append(f"{bare} of {len(images)} images have no label image: they are left out.")
    shown = {
        key: _values(files, masks[key])
        for key in watch(sorted(masks), "reading label images", total=len(masks))
    }
    used = set().union(*shown.values())
    if len(used) < LEAST_CLASSES:
        raise UserValueError(
            f"label images must show at least {LEAST_CLASSES} classes, but all {len(masks)} hold "
            f"{sorted(used) or 'nothing'} and perhaps {IGNORED}, which counts nowhere; write 1 for "
            "the pixels of the first class beside the background."
        )
    classes, source = _classes(files, max(used), warnings)
    for key, values in shown.items():
        beyond = [value for value in values if value >= len(classes)]
        if beyond:
            raise UserValueError(
                f"every pixel of a label image must be an index of the {len(classes)} classes of "
                f"{source} or {IGNORED}, but {masks[key]} has {beyond[0]}; correct it, or list all "
                "classes in classes.txt, one a line from index 0 on."
            )
    found = {
        key: LabelledImage(
            files.path(images[key]), mask=files.path(masks[key]), labels=frozenset(shown[key])
        )
        for key in masks
    }
    return classes, _split(files, found, masks)


def _split(files: Files, found: dict[str, LabelledImage], masks: dict[str, str]) -> Splits:
    by_stem = {Path(name).stem: found[key] for key, name in masks.items()}
    listed = listed_splits(files, "Segmentation", by_stem, "a label image")
    if listed:
        return listed
    splits: dict[str | None, list[LabelledImage]] = {}
    for key, image in found.items():
        folder = Path(masks[key]).parent.as_posix()
        splits.setdefault(split_of(folder), []).append(image)
    return splits


def _masks(files: Files) -> list[str]:
    names = [name for name in files.ending(".png") if is_label_image(name)]
    for preferred in _VOC_PREFERRED:
        own = [n for n in names if preferred in {part.lower() for part in Path(n).parts}]
        if own:
            return own
    return names


def _by_key(names: list[str]) -> dict[str, str]:
    """Return names by what an image and its label image have in common."""
    special = MASK_FOLDERS | _IMAGE_FOLDERS
    found: dict[str, str] = {}
    for name in names:
        path = Path(name)
        folders = [part for part in path.parts[:-1] if part.lower() not in special]
        key = "/".join([*folders, _SUFFIX.sub("", path.stem)])
        if key in found:
            raise UserValueError(
                f"an image must have one file and one label image, but {found[key]} and {name} "
                "have one name; remove one."
            )
        found[key] = name
    return found


def _values(files: Files, name: str) -> list[int]:
    """Return the class indices in a label image, without 255."""
    try:
        with open_image(files.root / name) as image:
            mode, pixels = image.mode, np.asarray(image)
    except Exception as error:  # PIL's plugins raise many classes
        raise UserValueError(
            f"{name}: must be a PNG of class indices, but it cannot be read ({error}); replace it."
        ) from error
    if mode not in _INDEX_MODES:
        raise UserValueError(
            f"{name}: must be a PNG of class indices (8 bits, gray or with a palette), but its "
            f"mode is {mode}, of colours or larger numbers; convert it."
        )
    return [value for value in np.unique(pixels).tolist() if value != IGNORED]


def _classes(files: Files, largest: int, warnings: list[str]) -> tuple[list[str], str]:
    """Return the names of the classes, and where they come from."""
    for name in files.ending(".txt"):
        if Path(name).name.lower() in _CLASS_FILES:
            # labelmap.txt of CVAT has name:colour:parts:actions and comments.
            lines = files.read_lines(name)
            names = [line.split(":")[0].strip() for line in lines if not line.startswith("#")]
            return [title for title in names if title], name
    in_voc = any("SegmentationClass" in Path(name).parts for name in files.names)
    if in_voc and largest < len(VOC_CLASSES) and class_names(files) <= set(VOC_CLASSES):
        return list(VOC_CLASSES), "PASCAL VOC"
    warnings.append(
        "the classes of the label images have no names: list them in DATA/classes.txt, one a line "
        "from index 0 on."
    )
    return [f"class {k}" for k in range(largest + 1)], "the label images"
