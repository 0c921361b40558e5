"""Label images: PNGs of class indices beside the images."""

import re
import reprlib
from pathlib import Path

import numpy as np
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
_SUFFIX = re.compile(r"[_-](mask|label|labels|labelids|gt)$", re.IGNORECASE)
_LOSSLESS = (".png", ".bmp", ".tif", ".tiff")
_MOST_UNNAMED = 64
"""Largest index of a class without a name, where indices are skipped."""


def palette() -> NDArray[np.uint8]:
    """Return VOC's colours (256, 3): the bits of an index, dealt out to red, green and blue."""
    bits = np.arange(256)[:, None, None] >> np.arange(9).reshape(3, 3) & 1
    return (bits << np.array([[7], [6], [5]])).sum(1).astype(np.uint8)


def find(files: Files) -> list[str]:
    """Return what lies in folders of masks, if one of it has the name of a photograph."""
    names = list(filter(is_label_image, files.images))
    for only in ("/SegmentationClassAug/", "/SegmentationClass/"):  # of VOC's folders one
        names = [name for name in names if only in f"/{name}"] or names
    # Folders of classes have like names.
    return [] if set(map(_key, files.photographs)).isdisjoint(map(_key, names)) else names


def read(files: Files, found: list[str], warnings: list[str]) -> tuple[list[str], Splits]:
    """Read the classes, and the images of all splits with the classes that each shows.

    The classes are the lines of classes.txt (index 0 first), or 'class 0', 'class 1', ... Pixels
    of 255 count nowhere.
    """
    lossy = [name for name in found if not name.lower().endswith(_LOSSLESS)]
    if lossy:
        raise UserValueError(
            f"label images must be PNGs, but {lossy[0]} is of a format that changes indices of "
            "classes when it is written; save it as PNG."
        )
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
    classes, source = files.class_names(max(used), warnings)
    if source == "the labels" and max(used) > _MOST_UNNAMED and len(used) <= max(used):
        raise UserValueError(
            "values of label images must be indices of classes, 0, 1, 2, ..., but are "
            f"{reprlib.repr(sorted(used))}; if they are colours or levels of gray, write indices; "
            "else list all classes in classes.txt, one a line from index 0 on."
        )
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
