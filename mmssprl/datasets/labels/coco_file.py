"""Read and check COCO's annotation files."""

import json
import math
import os
import reprlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from ...errors import UserValueError
from .agreement import differing
from .coco_boxes import check_boxes
from .files import Files, require_ann_file
from .labelled_images import LabelledImage, Object, Splits, image_of_objects
from .object_masks import box_around, without_slivers
from .split_names import split_of

TITLE = "COCO"
_OWN_FILES = [
    (f"annotations/instances_train{year}.json", f"annotations/instances_val{year}.json")
    for year in (2014, 2017)
]
"""Pairs of files of COCO itself; if one is found, other files such as captions are not read."""
_MOST_NAMED = 3
LISTS = ("images", "annotations", "categories")
"""The lists of a COCO file with objects."""
_NEEDED = {
    "images": ("id", "file_name"),
    "annotations": ("image_id", "category_id"),
    "categories": ("id", "name"),
}
"""Keys that each of their entries must have."""
_MOST = 1_000_000
"""Largest side and coordinate (px): drawing a mask takes time for each pixel of its edge."""
_MOST_ID = 2**63 - 1
_Contents = dict[str, dict[str, Any]]
"""COCO files by name."""


def find(files: Files) -> _Contents:
    """Return the content of the COCO files with objects by name, one for each split."""
    jsons = files.ending(".json")
    names = next((pair for pair in _OWN_FILES if set(pair) <= set(jsons)), jsons)
    contents = {name: read_json(files.root / name, name) for name in names}

    by_split = defaultdict(list)
    for name, content in contents.items():
        if not lacking_list(content):
            by_split[split_of(name, is_file=True)].append(name)

    found = []
    for split, own in by_split.items():
        # Files with keypoints repeat the objects of the file without.
        plain = [name for name in own if not _has_keypoints(contents[name])]
        if len(own) > 1 and len(plain) != 1:
            raise UserValueError(
                f"each split must have one COCO file, but {split or 'the data'} has {own[0]} "
                f"and {own[1]}; move one out of the data."
            )
        found += plain or own
    return {name: contents[name] for name in found}


def near_miss(files: Files) -> str:
    """Return a message about the first JSON file that is almost COCO's, or ""."""
    for name in files.ending(".json"):
        content = read_json(files.root / name, name)
        if isinstance(content, dict) and {"images", "annotations"} <= set(content):
            lacking = lacking_list(content)
            return f"{name}: a COCO file must have {', '.join(LISTS)}, but {lacking} is missing."
    return ""


def _has_keypoints(content: dict[str, Any]) -> bool:
    return any(isinstance(c, dict) and "keypoints" in c for c in content["categories"])


def read(files: Files, found: _Contents, warnings: list[str]) -> tuple[list[str], Splits]:
    """Read the classes, in the order of their ids, and all images, with or without objects."""
    splits = {}
    first, *_ = found
    for path, content in found.items():
        check_coco(path, content)
        check_boxes(path, content, warnings)

        own = {*_categories(content)}
        if unequal := own ^ {*_categories(found[first])}:
            raise UserValueError(
                differing(
                    "all splits must have the same categories",
                    first,
                    path,
                    [f"{sorted(unequal, key=str)[:_MOST_NAMED]}"] * len(unequal),
                    len(own.union(unequal)),
                    "make the files agree",
                )
            )

        splits[split_of(path, is_file=True)] = _read_images(files, path, content, warnings)
    return class_names(found[first]), splits


def class_names(content: dict[str, Any]) -> list[str]:
    """Return the names of the categories of a checked COCO file, in the order of their ids."""
    return [name for _, name in _categories(content)]


def objects_by_image(content: dict[str, Any]) -> dict[Any, list[Object]]:
    """Return the objects of a checked COCO file by image id, labelled as in ``class_names``."""
    index_of = {number: index for index, (number, _) in enumerate(_categories(content))}
    objects: dict[Any, list[Object]] = {image["id"]: [] for image in content["images"]}
    for annotation in content["annotations"]:
        thing = _read_object(annotation, index_of[annotation["category_id"]])
        objects[annotation["image_id"]].append(thing)
    return objects


def _categories(content: dict[str, Any]) -> list[tuple[Any, str]]:
    named = {category["id"]: str(category["name"]) for category in content["categories"]}
    return sorted(named.items())


def _read_images(
    files: Files, path: str, content: dict[str, Any], warnings: list[str]
) -> list[LabelledImage]:
    objects = objects_by_image(content)
    found = files.find_images([each["file_name"] for each in content["images"]], path, warnings)
    images = []
    for name, image in zip(found, content["images"], strict=True):
        frame = tuple(round(image.get(side) or 0) for side in ("width", "height"))
        images.append(image_of_objects(files.path(name), objects[image["id"]], frame=frame))
    return images


def _read_object(annotation: dict[str, Any], label: int) -> Object:
    box = annotation.get("bbox") or None
    segmentation = without_slivers(annotation.get("segmentation"))
    if box is None and segmentation:
        box = box_around(segmentation)
    place: Any = None if box is None else tuple(map(float, box))
    is_crowd = 1 in (annotation.get("iscrowd"), annotation.get("ignore"))
    return Object(label, place, segmentation or None, is_crowd)


def read_coco(ann_file: str | Path, *lists: str) -> dict[str, Any]:
    """Read and check a COCO file with some lists; images alone need no id."""
    require_ann_file(ann_file)
    content = read_json(ann_file, str(ann_file))
    if lacking := lacking_list(content, lists):
        raise UserValueError(
            f"{ann_file}: a COCO file must have {', '.join(lists)}, but it has no list {lacking!r}."
        )
    if lists == ("images",):
        _check_entries(str(ann_file), "images", content["images"], ("file_name",))
    else:
        check_coco(str(ann_file), content)
    return content


def read_json(path: str | Path, name: str) -> Any:
    """Read JSON in any UTF encoding; ValueError, which calls it ``name``, for anything else."""
    try:
        return json.loads(Path(path).read_bytes(), object_pairs_hook=_without_repeats)
    except (OSError, ValueError, RecursionError) as error:
        raise UserValueError(
            f"{name}: must be JSON, but {error}; export it again, or move it away."
        ) from error


def lacking_list(content: Any, lists: Sequence[str] = LISTS) -> str:
    """Return the first of COCO's lists that the content of a JSON file lacks, or ""."""
    found = content if isinstance(content, dict) else {}
    return next((key for key in lists if not isinstance(found.get(key), list)), "")


def check_coco(name: str, content: dict[str, Any]) -> None:
    """Raise ValueError for the first wrong id, size, box or mask of a COCO file.

    File names may be absolute or lead out of the folder: they are only opened as images.
    """
    for kind, needed in _NEEDED.items():
        _check_entries(name, kind, content[kind], needed)
    images = _ids(name, "images", content["images"])
    categories = _ids(name, "categories", content["categories"])
    if len({isinstance(number, str) for number in categories}) > 1:
        raise UserValueError(f"{name}: ids of categories must be numbers, but some are text.")

    for kind in _RULES:
        for entry in content[kind]:
            _check_values(name, kind, entry)

    for annotation in content["annotations"]:
        for key, known in (("image_id", images), ("category_id", categories)):
            if annotation[key] not in known:
                raise UserValueError(
                    f"{name}: annotation {reprlib.repr(annotation.get('id'))} must refer to an "
                    "image and a category of this file, but has "
                    f"{key}={reprlib.repr(annotation[key])}."
                )


def _check_values(name: str, kind: str, entry: dict[str, Any]) -> None:
    for key, (fits, rule) in _RULES[kind].items():
        value = entry.get(key)
        if value is not None and not fits(value):
            raise UserValueError(
                f"{name}: {key} must be {rule}, but {kind[:-1]} {reprlib.repr(entry.get('id'))} "
                f"has {reprlib.repr(value)}; change or delete it."
            )


def _check_entries(name: str, kind: str, entries: list[Any], needed: Sequence[str]) -> None:
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict) or not all(_fits(key, entry.get(key)) for key in needed):
            raise UserValueError(
                f"{name}: each entry of {kind} must have {' and '.join(needed)}, but entry "
                f"{number} is {reprlib.repr(entry)}; complete or delete the entry."
            )


def _fits(key: str, value: Any) -> bool:
    """Whether a value may be a file name, a name of text or an id (text or a whole number)."""
    if key == "file_name":
        try:
            return isinstance(value, str) and value != "" and b"\0" not in os.fsencode(value)
        except UnicodeEncodeError:  # not a valid file name
            return False
    if isinstance(value, str):
        return key != "name" or value.strip() != ""
    is_whole = type(value) is int or (type(value) is float and value.is_integer())
    return is_whole and (key != "name" or type(value) is int) and abs(value) <= _MOST_ID


def _ids(name: str, kind: str, entries: list[dict[str, Any]]) -> set[Any]:
    found: dict[Any, dict[str, Any]] = {}
    for entry in entries:
        if found.setdefault(entry["id"], entry) != entry:  # merged files may repeat an entry
            raise UserValueError(
                f"{name}: {kind} must have different ids, but several have {entry['id']!r}; "
                "change one."
            )
    return set(found)


def _is_mask(value: Any) -> bool:
    """Whether a value is polygons, one or a list, or run lengths that sum up to their size."""
    if isinstance(value, list):
        polygons = [value] if len(value) > 5 and _are_numbers(value) else value
        return all(map(_are_numbers, polygons))
    if not isinstance(value, dict):
        return False

    size = value.get("size")
    counts = value.get("counts")
    if not _are_numbers(size) or [*map(type, size)] != [int, int] or min(size) < 1:
        return False
    if not isinstance(counts, list):
        return isinstance(counts, str)
    return {*map(type, counts)} == {int} and min(counts) >= 0 and sum(counts) == math.prod(size)


def _are_numbers(values: Any) -> TypeGuard[list[Any]]:
    """Whether values are numbers within ``_MOST``, without True, False and NaN."""
    if not isinstance(values, list) or not {*map(type, values)} <= {int, float}:
        return False
    in_bounds = not values or (min(values) >= -_MOST and max(values) <= _MOST)
    return in_bounds and math.isfinite(sum(values))


def _is_side(value: Any) -> bool:
    return _are_numbers([value]) and value >= 0


_RULES: dict[str, dict[str, tuple[Callable[[Any], bool], str]]] = {
    "images": {"width": (_is_side, "a number"), "height": (_is_side, "a number")},
    "annotations": {
        "iscrowd": (lambda value: value in (0, 1), "0 or 1"),
        "bbox": (
            lambda value: _are_numbers(value) and len(value) in (0, 4),  # [] is unknown
            "four numbers, [x, y, width, height]",
        ),
        "segmentation": (_is_mask, "run lengths or a list of polygons, each [x, y, x, y, ...]"),
    },
}
"""Rules for the keys that entries may have."""


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        repeated = next(key for key in found if names.count(key) > 1)
        raise ValueError(f"an object has the key {reprlib.repr(repeated)} more than once")
    return found
