"""Label images: PNGs of class indices beside the images."""

import re
import reprlib
from pathlib import Path

import numpy as np
from mmpretrain.datasets.categories import VOC2007_CATEGORIES
from numpy.typing import NDArray

from ...console.progress import watch
from ...errors import UserValueError
from . import voc
from .files import MASK_FOLDERS, Files, is_label_image, refuse_missing
from .label_maps import IGNORED, read_indices
from .labelled_images import LabelledImage, Splits, by_folder

TITLE = "label images"
LEAST_CLASSES = 2
_IMAGE_FOLDERS = frozenset(("images", "image", "imgs", "jpegimages", "img_dir"))
_VOC_PREFERRED = ("segmentationclassaug", "segmentationclass")
_SUFFIX = re.compile(r"[_-](mask|label|labels|labelids|gt)$", re.IGNORECASE)
_LOSSLESS = (".png", ".bmp", ".tif", ".tiff", ".gif")
_MOST_UNNAMED = 64
"""Largest index of a class without a name, where indices are skipped."""
_VOC_CLASSES = ("background", *VOC2007_CATEGORIES)


def palette() -> NDArray[np.uint8]:
    """Return VOC's colours (256, 3): the bits of an index, dealt out to red, green and blue."""
    bits = np.arange(256)[:, None, None] >> np.arange(9).reshape(3, 3) & 1
    return (bits << np.array([[7], [6], [5]])).sum(1).astype(np.uint8)


def find(files: Files) -> list[str]:
    """Return the label images in folders of masks, of SegmentationClassAug if it is there."""
    names = [name for name in files.ending(*_LOSSLESS) if is_label_image(name)]
    for preferred in _VOC_PREFERRED:
        own = [n for n in names if preferred in {part.lower() for part in Path(n).parts}]
        if own:
            names = own
            break
    return names if files.photographs else []


def near_miss(files: Files) -> str:
    """Return what is wrong with a folder of masks whose format loses indices; "" without one."""
    names = [name for name in files.images if is_label_image(name)]
    lossy = [name for name in names if not name.lower().endswith(_LOSSLESS)]
    if not are_of_images(files, lossy):
        return ""
    return f"{lossy[0]} changes indices of classes when it is written; save label images as PNG"


def are_of_images(files: Files, found: list[str]) -> bool:
    """Whether one of the label images has an image; folders of classes have like names."""
    return not set(map(_key, files.photographs)).isdisjoint(map(_key, found))


def read(files: Files, found: list[str], warnings: list[str]) -> tuple[list[str], Splits]:
    """Read the classes, and the images of all splits with the classes that each shows.

    The classes are the lines of classes.txt (index 0 first), VOC's in its folders if no XML file
    names others, or 'class 0', 'class 1', ... Pixels of 255 count nowhere.
    """
    images, masks = _by_key(files.photographs), _by_key(found)
    lost = [name for key, name in masks.items() if key not in images]
    rule = "each label image must have its image in the data, with the same name but for the suffix"
    refuse_missing(rule, lost, len(masks))
    bare = len(images) - len(masks)
    if bare:
        warnings.append(f"{bare} of {len(images)} images have no label image: they are left out.")
    shown = {
        key: [*{*np.unique(read_indices(files.root / masks[key], masks[key])).tolist()} - {IGNORED}]
        for key in watch(sorted(masks), "reading label images", total=len(masks))
    }
    used = set().union(*shown.values())
    if len(used) < LEAST_CLASSES:
        raise UserValueError(
            f"label images must show at least {LEAST_CLASSES} classes, but all {len(masks)} hold "
            f"{sorted(used) or 'nothing'} and perhaps {IGNORED}, which counts nowhere; write 1 for "
            "the pixels of the first class beside the background."
        )
    classes, source = _classes(files, used, warnings)
    for key, values in shown.items():
        beyond = [value for value in values if value >= len(classes)]
        if beyond:
            raise UserValueError(
                f"every pixel of a label image must be an index of the {len(classes)} classes of "
                f"{source} or {IGNORED}, but {masks[key]} has {beyond[0]}; correct it, or list all "
                "classes in classes.txt, one a line from index 0 on."
            )
    labelled = {
        name: LabelledImage(
            files.path(images[key]), mask=files.path(name), labels=frozenset(shown[key])
        )
        for key, name in masks.items()
    }
    by_stem = {Path(name).stem: image for name, image in labelled.items()}
    listed = voc.listed_splits(files, "Segmentation", by_stem, "a label image")
    return classes, listed or by_folder(labelled)


def _key(name: str) -> str:
    """Return what the names of an image and of its label image have in common."""
    special = MASK_FOLDERS | _IMAGE_FOLDERS
    path = Path(name)
    folders = [part for part in path.parts[:-1] if part.lower() not in special]
    return "/".join([*folders, _SUFFIX.sub("", path.stem)])


def _by_key(names: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        first = found.setdefault(_key(name), name)
        if first != name:
            raise UserValueError(
                f"an image must have one file and one label image, but {first} and {name} have "
                "one name; remove one."
            )
    return found


def _classes(files: Files, used: set[int], warnings: list[str]) -> tuple[list[str], str]:
    """Return the names of the classes, and where they come from."""
    listed = files.listed_classes()
    if listed:
        return listed
    largest = max(used)
    if any("SegmentationClass" in Path(name).parts for name in files.names):
        items = (item for root in voc.find(files).values() for item in root.iter("object"))
        titles = {(item.findtext("name") or "").strip() for item in items}
        if largest < len(_VOC_CLASSES) and titles <= set(_VOC_CLASSES):
            return list(_VOC_CLASSES), "PASCAL VOC"
    if largest > _MOST_UNNAMED and len(used) <= largest:
        raise UserValueError(
            "values of label images must be indices of classes, 0, 1, 2, ..., but are "
            f"{reprlib.repr(sorted(used))}; if they are colours or levels of gray, write indices; "
            "else list all classes in classes.txt, one a line from index 0 on."
        )
    return files.numbered_classes(largest, warnings), "the label images"
