"""PASCAL VOC's XML files, wherever they and their images lie below a folder."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from ...console.progress import watch
from ...errors import UserFileNotFoundError, UserValueError
from .files import Files
from .labelled_images import LabelledImage, Object
from .splits import TRAIN, VAL, Splits, split_of

TITLE = "PASCAL VOC"
_PAIRS = (("trainval", "test"), ("train", "val"), ("train", "test"))
"""Lists of ImageSets/Main that are taken for train and val, the first two that are there."""
_MOST_NAMED = 3


def is_there(files: Files) -> bool:
    """Whether an XML file with annotations lies below the folder."""
    return bool(_annotations(files))


def read(files: Files, warnings: list[str]) -> tuple[list[str], Splits]:
    """Read the classes, in alphabetical order, and the images of all splits.

    The splits are those of ImageSets/Main, or those that folders name. A "difficult" object counts
    as present, and in no score of detection.

    Raises:
        FileNotFoundError: Annotations without an image, or an image set that lists others.
        ValueError: A file that is no XML, or an object without a name or a box.
    """
    found: dict[str, tuple[str, list[tuple[str, Object]]]] = {}
    missing = []
    num_odd = 0
    for name, root in _annotations(files).items():
        told = (root.findtext("filename") or "").strip()
        # LabelImg keeps what an image was once called; then the file's own name counts.
        if Path(told).stem != Path(name).stem:
            told = Path(name).stem
        image = files.find_image(told, name, or_stem=True)
        if image is None:
            missing.append(name)
            continue
        objects = []
        for item in root.iter("object"):
            read_one = _read_object(item, name)
            if read_one is None:
                num_odd += 1
            else:
                objects.append(read_one)
        found[name] = (image, objects)
    if missing:
        raise UserFileNotFoundError(
            f"each annotation file must have its image below DATA, but {len(missing)} of "
            f"{len(missing) + len(found)} have none, for example {missing[:_MOST_NAMED]}; copy the "
            "images there, or remove the files."
        )
    if num_odd:
        warnings.append(f"{num_odd} boxes have no area; left out.")
    classes = sorted({name for _, objects in found.values() for name, _ in objects})
    index_of = {name: index for index, name in enumerate(classes)}
    images = {}
    for name, (image, named) in found.items():
        own = tuple(replace(thing, label=index_of[title]) for title, thing in named)
        labels = frozenset(thing.label for thing in own)
        images[name] = LabelledImage(files.path(image), own, labels=labels)
    return classes, _split(files, images)


def class_names(files: Files) -> set[str]:
    """Return the names of all objects in the XML files."""
    items = (item for root in _annotations(files).values() for item in root.iter("object"))
    return {(item.findtext("name") or "").strip() for item in items}


def listed_splits(
    files: Files, folder: str, by_stem: dict[str, LabelledImage], what: str
) -> Splits:
    """Return the images of train and val that the files of ImageSets/<folder> list, or nothing.

    Args:
        files: Of the folder.
        folder: Below ImageSets.
        by_stem: Images by the names that the lists have.
        what: That each of them must have, for an error.

    Raises:
        FileNotFoundError: A listed name without an image.
        ValueError: A list without a name.
    """
    listed = _image_sets(files, folder)
    for split, names in listed.items():
        lost = [name for name in names if name not in by_stem]
        if lost:
            raise UserFileNotFoundError(
                f"every image that ImageSets/{folder} lists must have {what}, but {len(lost)} of "
                f"{len(names)} of {split} have none, for example {lost[:_MOST_NAMED]}; add them, "
                "or remove the names."
            )
    return {split: [by_stem[name] for name in names] for split, names in listed.items()}


def _image_sets(files: Files, folder: str) -> dict[str, list[str]]:
    """Return the names of train and val that the files of ImageSets/<folder> list, or nothing.

    Raises:
        ValueError: A list without a name.
    """
    lists = {
        Path(name).stem: name
        for name in files.ending(".txt")
        if Path(name).parts[-3:-1] == ("ImageSets", folder)
    }
    for pair in _PAIRS:
        if all(name in lists for name in pair):
            listed = {}
            for split, name in zip((TRAIN, VAL), pair, strict=True):
                lines = files.read_lines(lists[name])
                listed[split] = [line.split()[0] for line in lines if line.strip()]
                if not listed[split]:
                    raise UserValueError(
                        f"each split must have at least one image, but {lists[name]} lists none; "
                        "list some, or remove ImageSets to have the splits drawn."
                    )
            return listed
    return {}


def _split(files: Files, images: dict[str, LabelledImage]) -> Splits:
    by_stem = {Path(name).stem: image for name, image in images.items()}
    listed = listed_splits(files, "Main", by_stem, "annotations")
    if listed:
        return listed
    splits: dict[str | None, list[LabelledImage]] = {}
    for name, image in images.items():
        folder = Path(name).parent.as_posix()
        splits.setdefault(split_of(folder), []).append(image)
    return splits


@lru_cache(maxsize=1)
def _annotations(files: Files) -> dict[str, ET.Element]:
    names = files.ending(".xml")
    found = {name: _parse(files, name) for name in watch(names, "reading annotations")}
    return {name: root for name, root in found.items() if root.tag == "annotation"}


def _parse(files: Files, name: str) -> ET.Element:
    try:
        return ET.parse(files.root / name).getroot()
    except ET.ParseError as error:
        raise UserValueError(
            f"{name}: must be XML, but {error}; repair it, or move it out of DATA."
        ) from error


def _read_object(item: ET.Element, name: str) -> tuple[str, Object] | None:
    """Return the class and the object, None if its box has no area."""
    title = (item.findtext("name") or "").strip()
    corners = [item.findtext(f"bndbox/{key}") for key in ("xmin", "ymin", "xmax", "ymax")]
    try:
        left, top, right, bottom = (float(corner or "") for corner in corners)
    except ValueError as error:
        raise UserValueError(
            f"{name}: each object must have a bndbox of four numbers, but {title or 'one'} has "
            f"{corners}; repair the file."
        ) from error
    if not title:
        raise UserValueError(f"{name}: each object must have a name, but one has none; repair it.")
    if right <= left or bottom <= top:
        return None
    # VOC counts pixels from 1, and both corners are inside.
    left, top = max(0.0, left - 1), max(0.0, top - 1)
    box = (left, top, right - left, bottom - top)
    is_crowd = (item.findtext("difficult") or "0").strip() == "1"
    return title, Object(0, box, is_crowd=is_crowd)
