"""Read the COCO annotation files in a folder."""

from collections import defaultdict
from typing import Any

from pycocotools import mask as run_lengths

from ...errors import UserValueError
from .coco_file import LISTS, check_coco, lacking_list, read_json
from .files import Files
from .labelled_images import LabelledImage, Object, Splits, image_of_objects, split_of

TITLE = "COCO"
_OWN_FILES = [
    [f"annotations/instances_{split}{year}.json" for split in ("train", "val")]
    for year in (2014, 2017)
]
"""Pairs of files of COCO itself; if one is found, other files such as captions are not read."""
_MOST_NAMED = 3
_LEAST_COORDINATES = 6
"""Numbers of a polygon with three corners."""


def find(files: Files) -> dict[str, dict[str, Any]]:
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
        # Files with keypoints hold the objects of the one without once more.
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
            lacking, lists = lacking_list(content), ", ".join(LISTS)
            return f"{name}: a COCO file must have the lists {lists}, but {lacking} is missing."
    return ""


def _has_keypoints(content: dict[str, Any]) -> bool:
    return any(isinstance(c, dict) and "keypoints" in c for c in content["categories"])


def read(
    files: Files, found: dict[str, dict[str, Any]], warnings: list[str]
) -> tuple[list[str], Splits]:
    """Read the classes, in the order of their ids, and all images, with or without objects."""
    splits = {}
    first, *_ = found
    for path, content in found.items():
        check_coco(path, content)
        if differing := {*_categories(content)} ^ {*_categories(found[first])}:
            raise UserValueError(
                f"all splits must have the same categories, but {first} and {path} differ in "
                f"{sorted(differing, key=str)[:_MOST_NAMED]}; make the files agree."
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
    return sorted(named.items(), key=lambda each: (isinstance(each[0], str), each[0]))


def _read_images(
    files: Files, path: str, content: dict[str, Any], warnings: list[str]
) -> list[LabelledImage]:
    objects = objects_by_image(content)
    found = files.find_images([each["file_name"] for each in content["images"]], path, warnings)
    images = []
    for name, image in zip(found, content["images"], strict=True):
        width, height = (round(image.get(side) or 0) for side in ("width", "height"))
        own = objects[image["id"]]
        images.append(image_of_objects(files.path(name), own, frame=(width, height)))
    return images


def _read_object(annotation: dict[str, Any], label: int) -> Object:
    box = annotation.get("bbox")
    segmentation = annotation.get("segmentation")
    if isinstance(segmentation, list):
        segmentation = [polygon for polygon in segmentation if len(polygon) >= _LEAST_COORDINATES]
    if box is None and segmentation:
        box = _box_around(segmentation)
    place: Any = None if box is None else tuple(map(float, box))
    return Object(label, place, segmentation or None, bool(annotation.get("iscrowd", 0)))


def _box_around(segmentation: Any) -> list[float]:
    if isinstance(segmentation, dict):
        if isinstance(segmentation["counts"], list):
            segmentation = run_lengths.frPyObjects(segmentation, *segmentation["size"])
        return run_lengths.toBbox(segmentation).tolist()
    sides = [[v for polygon in segmentation for v in polygon[axis::2]] for axis in (0, 1)]
    return [*map(min, sides), *(max(side) - min(side) for side in sides)]
