"""COCO's annotation files, wherever they and their images lie below a folder."""

import math
from collections import Counter, defaultdict
from functools import lru_cache
from typing import Any

from ...errors import UserFileNotFoundError, UserValueError
from ..coco_file import check_coco, is_coco, read_json
from .files import Files
from .labelled_images import LabelledImage, Object
from .splits import Splits, split_of

TITLE = "COCO"
_MOST_NAMED = 3
_LEAST_COORDINATES = 6
"""Of a polygon: three corners."""


def is_there(files: Files) -> bool:
    """Whether a COCO file with objects lies below the folder.

    Raises:
        ValueError: As ``read_json``, or two COCO files for one split.
    """
    return bool(_find(files))


def read(files: Files, warnings: list[str]) -> tuple[list[str], Splits]:
    """Read the classes and the images of all splits.

    Classes are in the order of their category ids. An annotation that is a box of no area, or lies
    outside the image, is left out with a warning; an image without annotations stays.

    Raises:
        FileNotFoundError: Images that are listed and not there.
        ValueError: Splits with different categories, or as ``check_coco``.
    """
    contents = _find(files)
    for path, content in contents.items():
        check_coco(path, content)
    names: dict[str, list[tuple[int, str]]] = {
        path: sorted((category["id"], str(category["name"])) for category in content["categories"])
        for path, content in contents.items()
    }
    first = next(iter(names))
    for path, own in names.items():
        if own != names[first]:
            raise UserValueError(
                f"all splits must have the same categories, but {first} and {path} differ in "
                f"{sorted(set(own) ^ set(names[first]))[:_MOST_NAMED]}; make the files agree."
            )
    doubled = [
        name for name, count in Counter(name for _, name in names[first]).items() if count > 1
    ]
    if doubled:
        raise UserValueError(
            f"{first}: each category must have a name of its own, but several are called "
            f"{doubled[0]!r}; rename them, or join them."
        )
    index_of = {number: index for index, (number, _) in enumerate(names[first])}
    splits = {
        split_of(path): _read_images(files, path, content, index_of, warnings)
        for path, content in contents.items()
    }
    return [name for _, name in names[first]], splits


@lru_cache(maxsize=1)
def _find(files: Files) -> dict[str, dict[str, Any]]:
    """Return the content of each COCO file by name."""
    found: dict[str, dict[str, Any]] = {}
    for name in files.ending(".json"):
        content = read_json(files.root / name, name)
        if is_coco(content):
            found[name] = content
    by_split = defaultdict(list)
    for name in found:
        by_split[split_of(name)].append(name)
    for split, names in by_split.items():
        if len(names) > 1:
            raise UserValueError(
                f"each split must have one COCO file, but {split or 'the data'} has {names[0]} and "
                f"{names[1]}; move one out of DATA."
            )
    return found


def _read_images(
    files: Files,
    path: str,
    content: dict[str, Any],
    index_of: dict[int, int],
    warnings: list[str],
) -> list[LabelledImage]:
    listed = {image["id"]: image for image in content["images"]}
    objects: dict[Any, list[Object]] = {number: [] for number in listed}
    num_odd = 0
    for annotation in content["annotations"]:
        number, category = annotation["image_id"], annotation["category_id"]
        thing = _read_object(annotation, index_of[category], listed[number])
        if thing is None:
            num_odd += 1
        else:
            objects[number].append(thing)
    if num_odd:
        warnings.append(f"{path}: {num_odd} boxes have no area inside their image; left out.")
    images, missing = [], []
    for number, image in listed.items():
        found = files.find_image(image["file_name"], path)
        if found is None:
            missing.append(image["file_name"])
        else:
            own = tuple(objects[number])
            labels = frozenset(thing.label for thing in own)
            images.append(LabelledImage(files.path(found), own, labels=labels))
    if missing:
        raise UserFileNotFoundError(
            f"{path}: every image that it lists must be below DATA, but {len(missing)} of "
            f"{len(listed)} are not, for example {missing[:_MOST_NAMED]}; copy them there, or "
            "remove them from the file."
        )
    return images


def _read_object(annotation: dict[str, Any], label: int, image: dict[str, Any]) -> Object | None:
    """Return one object, None if its box has no area inside the image."""
    box = annotation.get("bbox")
    if box is not None:
        x, y, width, height = map(float, box)
        inside_x = min(x + width, image.get("width") or math.inf) - max(x, 0)
        inside_y = min(y + height, image.get("height") or math.inf) - max(y, 0)
        if min(width, height) < 1 or inside_x <= 0 or inside_y <= 0:
            return None
        box = (x, y, width, height)
    segmentation = annotation.get("segmentation")
    if isinstance(segmentation, list):
        segmentation = [polygon for polygon in segmentation if len(polygon) >= _LEAST_COORDINATES]
    return Object(label, box, segmentation or None, bool(annotation.get("iscrowd", 0)))
