"""Read label images: PNGs of class indices."""

import re
import reprlib
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

import numpy as np
from mmpretrain.datasets.categories import VOC2007_CATEGORIES
from numpy.typing import NDArray

from ...console.progress import watch
from ...errors import UserValueError
from ..image_index import IMAGE_SUFFIXES
from ..image_reading import open_image
from . import voc
from .agreement import spelled
from .class_lists import agreed, class_files, numbered_classes
from .colours import are_by_colour, listed_colours
from .files import MASK_FOLDERS, Files, check_indices, is_label_image, refuse_missing, unlike
from .label_maps import IGNORED, IN_COLOUR, read_indices
from .labelled_images import Colour, LabelledImage, Splits
from .split_lists import image_set_splits

TITLE = "label images"
_LEAST_CLASSES = 2
_IMAGE_FOLDERS = frozenset(("images", "image", "imgs", "jpegimages", "img_dir"))
_VOC_PREFERRED = ("segmentationclassaug", "segmentationclass")
_SUFFIX = re.compile(r"[_-](mask|label|labels|labelids|labeltrainids|gt)$", re.IGNORECASE)
_LOSSLESS = (".png", ".bmp", ".tif", ".tiff", ".gif")
_MOST_IGNORED = 0.1
"""Fraction of label images without any class above which they may be of another convention."""
_MOST_UNNAMED = 64
"""Largest index of a class without a name, if indices are skipped."""
_VOC_CLASSES = ("background", *VOC2007_CATEGORIES)


def palette() -> NDArray[np.uint8]:
    """Return VOC's colours (256, 3), made of the bits of the index."""
    bits = np.arange(256)[:, None, None] >> np.arange(9).reshape(3, 3) & 1
    return (bits << np.array([[7], [6], [5]])).sum(1).astype(np.uint8)


def find(files: Files) -> list[str]:
    """Return the label images in folders of masks; VOC's SegmentationClassAug first.

    Return none if no image has one of them: a folder of a class may be named alike.
    """
    names = [name for name in files.ending(*_LOSSLESS) if is_label_image(name)]
    for folder in _VOC_PREFERRED:
        preferred = [name for name in names if f"/{folder}/" in f"/{name.lower()}"]
        if preferred:
            return _if_of_images(files, preferred)
    return _if_of_images(files, names)


def near_miss(files: Files) -> str:
    """Return a message about label images in a lossy format, of other names or places, or ""."""
    names = [name for name in files.images if is_label_image(name)]
    lossy = _if_of_images(files, [x for x in names if not x.lower().endswith(_LOSSLESS)])
    if lossy:
        name = lossy[0]
        return f"{name}: this format changes the indices of classes; save label images as PNG."

    rule = "each label image must have the name of its image"
    if names and not _if_of_images(files, names):
        return unlike(rule, names[0], files.photographs) if files.photographs else ""

    stems = defaultdict(list)
    for name in files.photographs:
        stems[Path(name).stem].append(name)
    for alike in stems.values():
        lossless = [name for name in alike if name.lower().endswith(_LOSSLESS)]
        drawn = [name for name in lossless if _mode(files.path(name)) not in IN_COLOUR]
        images = [name for name in alike if name not in drawn]
        if drawn and images:
            return (
                f"{drawn[0]} may be the label image of {images[0]}, but its folder is none of "
                f"{', '.join(sorted(MASK_FOLDERS))}; rename the folder."
            )
    return ""


def has_name_of_label_image(name: str) -> bool:
    """Whether the folder or the ending of an image is one of label images."""
    is_lossless = name.lower().endswith(_LOSSLESS)
    return is_lossless and bool(is_label_image(name) or _SUFFIX.search(Path(name).stem))


def label_images_in(names: Sequence[str]) -> list[str]:
    """Return the names of images that are label images of others, by their folder or ending."""
    likely = {name for name in names if has_name_of_label_image(name)}
    keys = {_key(name) for name in names if name not in likely} if likely else set()
    return sorted(name for name in likely if _key(name) in keys)


def _if_of_images(files: Files, names: list[str]) -> list[str]:
    return names if {*map(_key, files.photographs)} & {*map(_key, names)} else []


def read(files: Files, found: list[str], warnings: list[str]) -> tuple[list[str], Splits]:
    """Read the classes, and the images of all splits with the classes that each shows."""
    images = _by_key(files.photographs)
    masks = _by_key(found)
    lost = [name for key, name in masks.items() if key not in images]
    rule = "each label image must have an image with the same name except for the suffix"
    refuse_missing(rule, lost, len(masks), files.unread)
    bare = len(images) - len(masks)
    if bare:
        warnings.append(f"{bare} of {len(images)} images have no label image: they are left out.")

    colours, values = _read_values(files, masks, warnings)
    _warn_of_ignored({masks[key]: own for key, own in values.items()}, warnings)
    shown = {key: own - {IGNORED} for key, own in values.items()}
    used = frozenset().union(*shown.values())
    if len(used) < _LEAST_CLASSES:
        raise UserValueError(
            f"label images must show at least {_LEAST_CLASSES} classes, but all {len(masks)} hold "
            f"{sorted(used) or 'nothing'} and perhaps {IGNORED}, which is ignored; write 1 for the "
            "first class and 0 for the background."
        )

    listed = agreed(class_files(files), warnings)
    classes, source = listed or (_unlisted_classes(files, used, warnings), "")
    check_indices(((masks[key], values) for key, values in shown.items()), classes, source)

    labelled = {
        name: LabelledImage(
            files.path(images[key]),
            mask=files.path(name),
            mask_colours=colours[key],
            labels=shown[key],
        )
        for key, name in masks.items()
    }
    return classes, image_set_splits(files, "Segmentation", labelled, "a label image")


def _read_values(
    files: Files, masks: Mapping[str, str], warnings: list[str]
) -> tuple[dict[str, tuple[Colour, ...]], dict[str, frozenset[int]]]:
    """Return the colours to read each label image by, () for indices, and the values in it."""
    listed_rgb = listed_colours(files)
    modes = {key: _mode(files.path(name)) for key, name in masks.items()}
    colours = {key: listed_rgb if mode in IN_COLOUR else () for key, mode in modes.items()}
    values = {
        key: _values_in(files, masks[key], colours[key])
        for key in watch(sorted(masks), "reading label images", total=len(masks))
    }
    with_palette = [key for key, mode in modes.items() if mode == "P"]
    indices = {masks[key]: values[key] - {IGNORED} for key in with_palette}
    if are_by_colour(files, indices, listed_rgb, warnings):
        for key in with_palette:
            colours[key] = listed_rgb
            values[key] = _values_in(files, masks[key], listed_rgb)
    return colours, values


def _warn_of_ignored(shown: Mapping[str, Set[int]], warnings: list[str]) -> None:
    """Warn of label images, by name, that show no class but the background and ``IGNORED``.

    With the background, ``IGNORED`` is right where others have it next to a class, as for nodata.
    """
    is_next_to_class = any(IGNORED in own and own - {0, IGNORED} for own in shown.values())
    without_class = [{IGNORED}] if is_next_to_class else [{IGNORED}, {0, IGNORED}]
    bare = [name for name, own in shown.items() if own in without_class]
    if len(bare) > _MOST_IGNORED * len(shown):
        warnings.append(
            f"{len(bare)} of {len(shown)} label images hold only {IGNORED}, which is ignored, and "
            f"perhaps 0, for example {bare[0]}; write the index of a class if {IGNORED} stands for "
            "one there."
        )


def _mode(path: str) -> str:
    with open_image(path) as file:
        return file.mode


def _values_in(files: Files, name: str, colours: Sequence[Colour]) -> frozenset[int]:
    """Return the classes in a label image, and ``IGNORED`` if pixels have it."""
    indices = read_indices(files.path(name), name, colours)
    return frozenset(np.unique(indices).tolist())


def _key(name: str) -> str:
    """Return the common part of the names of an image and its label image."""
    special = MASK_FOLDERS | _IMAGE_FOLDERS
    path = Path(spelled(name))
    folders = [part for part in path.parts[:-1] if part.lower() not in special]
    stem = path.stem
    if is_label_image(name) and stem.lower().endswith(IMAGE_SUFFIXES):  # a.jpg.png
        stem = Path(stem).stem
    return "/".join([*folders, _SUFFIX.sub("", stem)])


def _by_key(names: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        first = found.setdefault(_key(name), name)
        if first != name:
            raise UserValueError(
                f"each image must have one file, but {first} and {name} have one name; remove one."
            )
    return found


def _unlisted_classes(files: Files, used: Set[int], warnings: list[str]) -> list[str]:
    largest = max(used)
    if any("SegmentationClass" in Path(name).parts for name in files.names):
        titles = set()
        for root in voc.find(files).values():
            titles |= {(item.findtext("name") or "").strip() for item in root.iter("object")}
        if largest < len(_VOC_CLASSES) and titles <= {*_VOC_CLASSES}:
            return [*_VOC_CLASSES]

    if largest > _MOST_UNNAMED and len(used) <= largest:
        raise UserValueError(
            "label images must hold indices of classes, 0, 1, 2, ..., but hold "
            f"{reprlib.repr(sorted(used))}. Convert colours or levels of gray to indices, or list "
            "all classes in classes.txt, one per line."
        )
    return numbered_classes(largest, warnings)
