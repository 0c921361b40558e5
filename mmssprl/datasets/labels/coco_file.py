"""COCO's annotation files, read and checked: the one door to them."""

import json
import math
import os
import reprlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeGuard

from ...errors import UserFileNotFoundError, UserValueError

LISTS = ("images", "annotations", "categories")
"""The lists of a COCO file with objects."""
_NEEDED = {
    "images": ("id", "file_name"),
    "annotations": ("image_id", "category_id"),
    "categories": ("id", "name"),
}
"""What each of their entries must have."""
_MOST = 1_000_000
"""No side and no coordinate is larger, in pixels: masks are drawn along the edges of polygons."""
_MOST_ID = 2**63 - 1


def require_ann_file(ann_file: str | Path) -> None:
    """Raise FileNotFoundError if there is no such annotation file."""
    if not os.path.isfile(ann_file):
        raise UserFileNotFoundError(
            f"ann_file must be a file, but there is none at {str(ann_file)!r}; correct the path "
            "(relative to data_root, or absolute)."
        )


def read_coco(ann_file: str | Path, *lists: str) -> dict[str, Any]:
    """Read a COCO file with some lists, and check what it says.

    With ``lists`` of "images" alone its entries need no id.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: As ``read_json`` and ``check_coco``, or a list is missing.
    """
    require_ann_file(ann_file)
    content = read_json(ann_file, str(ann_file))
    for key in lists:
        if not isinstance(content, dict) or not isinstance(content.get(key), list):
            raise UserValueError(
                f"{ann_file}: must hold the list(s) {', '.join(lists)} of a COCO file, but has no "
                f"list {key!r}; take an instances_*.json."
            )
    if lists == ("images",):
        _check_entries(str(ann_file), "images", content["images"], ("file_name",))
    else:
        check_coco(str(ann_file), content)
    return content


def read_json(path: str | Path, name: str) -> Any:
    """Read JSON in any UTF, called ``name`` in errors, which tell of what is none too.

    That is deep nesting, a number of thousands of digits, or a key twice in one object.
    """
    try:
        return json.loads(Path(path).read_bytes(), object_pairs_hook=_without_repeats)
    except (OSError, ValueError, RecursionError) as error:
        raise UserValueError(
            f"{name}: must be JSON, but {error}; repair it or download it again, or move it away "
            "if it is no annotation file."
        ) from error


def is_coco(content: Any) -> bool:
    """Whether what a JSON file holds is COCO's format of objects."""
    return isinstance(content, dict) and all(isinstance(content.get(k), list) for k in LISTS)


def check_coco(name: str, content: dict[str, Any]) -> None:
    """Check the ids, sizes, boxes and masks of a COCO file with objects.

    An image may be called by an absolute path or by one that leads out of its folder: it is opened
    as an image and nothing else. The first entry that is wrong is told as a ValueError.
    """
    for kind, needed in _NEEDED.items():
        _check_entries(name, kind, content[kind], needed)
    images, categories = (_ids(name, kind, content[kind]) for kind in ("images", "categories"))
    if len({isinstance(number, str) for number in categories}) > 1:
        raise UserValueError(
            f"{name}: the ids of categories must be numbers, but some are text; repair the file."
        )
    for image in content["images"]:
        for side in ("width", "height"):
            value = image.get(side)
            if value is not None and not (_are_numbers([value]) and value >= 0):
                _refuse(name, f"{side} must be a number", "image", image["id"], value)
    for annotation in content["annotations"]:
        number, category = annotation["image_id"], annotation["category_id"]
        if number not in images or category not in categories:
            key, got = ("category_id", category) if number in images else ("image_id", number)
            raise UserValueError(
                f"{name}: annotation {reprlib.repr(annotation.get('id'))} must name an image and a "
                f"category of the same file, but got {key}={reprlib.repr(got)}; repair the file."
            )
        _check_object(name, annotation)


def _check_object(name: str, annotation: dict[str, Any]) -> None:
    """Raise ValueError for a crowd, a box or a mask that is none."""
    box, mask, crowd = (annotation.get(key) for key in ("bbox", "segmentation", "iscrowd"))
    if crowd is not None and crowd not in (0, 1):
        rule, got = "iscrowd must be 0 or 1", crowd
    elif box is not None and not (_are_numbers(box) and len(box) == 4):
        rule, got = "bbox must be four numbers, [x, y, width, height]", box
    elif mask is not None and not (_are_run_lengths(mask) or _are_polygons(mask)):
        rule, got = "segmentation must be run lengths or a list of polygons", mask
    else:
        return
    _refuse(name, rule, "annotation", annotation.get("id"), got)


def _refuse(name: str, rule: str, kind: str, number: Any, got: Any) -> None:
    raise UserValueError(
        f"{name}: {rule}, but {kind} {reprlib.repr(number)} has {reprlib.repr(got)}; repair the "
        "file."
    )


def _check_entries(name: str, kind: str, entries: list[Any], needed: Sequence[str]) -> None:
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict) or not all(_fits(key, entry.get(key)) for key in needed):
            raise UserValueError(
                f"{name}: each entry of {kind} must have {' and '.join(needed)}, but entry "
                f"{number} is {reprlib.repr(entry)}; repair the file."
            )


def _fits(key: str, value: Any) -> bool:
    """Whether a value may be a file's name, or an id or a name: text or a whole number."""
    if key != "file_name":
        if type(value) is float and key != "name":
            return value.is_integer() and abs(value) <= _MOST_ID
        is_text = isinstance(value, str) and (key != "name" or value.strip() != "")
        return is_text or (type(value) is int and abs(value) <= _MOST_ID)
    try:
        return isinstance(value, str) and value != "" and b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:  # no name that a disk can have
        return False


def _ids(name: str, kind: str, entries: list[dict[str, Any]]) -> set[Any]:
    found: dict[Any, int] = {}
    for number, entry in enumerate(entries):
        first = found.setdefault(entry["id"], number)
        if entries[first] != entry:  # the same entry again, as merged files have it, says no more
            raise UserValueError(
                f"{name}: each entry of {kind} must have an id of its own, but entries {first} and "
                f"{number} both have {entry['id']!r}; give one another id."
            )
    return set(found)


def _are_polygons(value: Any) -> bool:
    return isinstance(value, list) and all(map(_are_numbers, value))


def _are_run_lengths(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    size, counts = value.get("size"), value.get("counts")
    if not _are_numbers(size) or [*map(type, size)] != [int, int] or min(size) < 0:
        return False
    if not isinstance(counts, list):
        return isinstance(counts, str)
    return {*map(type, counts)} == {int} and min(counts) >= 0 and sum(counts) == math.prod(size)


def _are_numbers(values: Any) -> TypeGuard[list[Any]]:
    """Whether values are numbers of a size that pixels have; True and NaN are none."""
    if not isinstance(values, list) or not {*map(type, values)} <= {int, float}:
        return False
    in_bounds = not values or (min(values) >= -_MOST and max(values) <= _MOST)
    return in_bounds and math.isfinite(sum(values))


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        repeated = next(key for key in found if names.count(key) > 1)
        raise ValueError(f"an object has the key {reprlib.repr(repeated)} more than once")
    return found
