"""COCO's annotation files below a folder."""

from typing import Any

from ...console.wording import counted
from ...errors import UserValueError
from .coco_file import check_coco, is_coco, read_json
from .files import Files
from .labelled_images import LabelledImage, Object, Splits, image_of_objects, split_of

TITLE = "COCO"
_MOST_NAMED = 3
_LEAST_COORDINATES = 6
"""Of a polygon: three corners."""


def find(files: Files) -> dict[str, dict[str, Any]]:
    """Return the content of each COCO file with objects, by name; one for each split.

    Beside COCO's own instances_*.json other files, such as those of keypoints, are not looked at.
    """
    names = files.ending(".json")
    names = [name for name in names if "instances_" in name] or names
    contents = {name: read_json(files.root / name, name) for name in names}
    found = {name: content for name, content in contents.items() if is_coco(content)}
    by_split: dict[str | None, str] = {}
    for name in found:
        split = split_of(name, is_file=True)
        if by_split.setdefault(split, name) != name:
            raise UserValueError(
                f"each split must have one COCO file, but {split or 'the data'} has "
                f"{by_split[split]} and {name}; move one out of the data."
            )
    return found


def read(
    files: Files, found: dict[str, dict[str, Any]], warnings: list[str]
) -> tuple[list[str], Splits]:
    """Read the classes, in the order of their ids, and all images, also without annotations."""
    for path, content in found.items():
        check_coco(path, content)
    categories = {path: _categories(content) for path, content in found.items()}
    first = next(iter(categories))
    for path, own in categories.items():
        if own != categories[first]:
            differing = sorted(set(own) ^ set(categories[first]))
            raise UserValueError(
                f"all splits must have the same categories, but {first} and {path} differ in "
                f"{differing[:_MOST_NAMED]}; make the files agree."
            )
    splits = {
        split_of(path, is_file=True): _read_images(files, path, found[path], warnings)
        for path in found
    }
    return class_names(found[first]), splits


def class_names(content: dict[str, Any]) -> list[str]:
    """Return the names of the categories of a checked COCO file, in the order of their ids."""
    return [name for _, name in _categories(content)]


def objects_by_image(content: dict[str, Any]) -> dict[Any, list[Object]]:
    """Return the objects in each image of a checked COCO file, labelled as in ``class_names``."""
    index_of = {number: index for index, (number, _) in enumerate(_categories(content))}
    objects: dict[Any, list[Object]] = {image["id"]: [] for image in content["images"]}
    for annotation in content["annotations"]:
        thing = _read_object(annotation, index_of[annotation["category_id"]])
        objects[annotation["image_id"]].append(thing)
    return objects


def _categories(content: dict[str, Any]) -> list[tuple[Any, str]]:
    return sorted((category["id"], str(category["name"])) for category in content["categories"])


def _read_images(
    files: Files, path: str, content: dict[str, Any], warnings: list[str]
) -> list[LabelledImage]:
    objects = objects_by_image(content)
    images = [*{image["id"]: image for image in content["images"]}.values()]
    if doubled := len(content["images"]) - len(images):  # equal ones: ``check_coco`` refuses others
        warnings.append(f"{path} lists {counted(doubled, 'image')} again; each is taken once.")
        for things in objects.values():
            things[:] = [thing for i, thing in enumerate(things) if thing not in things[:i]]
    rule = f"{path}: every file_name must have its image in the data, in the folders that it names"
    found = files.find_images([image["file_name"] for image in images], path, rule)
    return [
        image_of_objects(
            files.path(name),
            objects[image["id"]],
            frame=(round(image.get("width") or 0), round(image.get("height") or 0)),
        )
        for name, image in zip(found, images, strict=True)
    ]


def _read_object(annotation: dict[str, Any], label: int) -> Object:
    box, mask = annotation.get("bbox"), annotation.get("segmentation")
    if isinstance(mask, list):
        mask = [polygon for polygon in mask if len(polygon) >= _LEAST_COORDINATES]
    x, y, width, height = map(float, box or (0, 0, 0, 0))
    is_crowd = bool(annotation.get("iscrowd", 0))
    return Object(label, (x, y, width, height) if box else None, mask or None, is_crowd)
