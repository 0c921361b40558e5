"""Read YOLO's text files: one per image, one line per object, in labels/ or with the images."""

import contextlib
import os
import re
import reprlib
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Any

import yaml

from ...console.progress import watch
from ...errors import UserValueError
from .agreement import spelled
from .class_lists import agreed, check_count, numbered_classes, other_lists
from .files import Files, check_indices, is_label_image, refuse_missing, unlike
from .labelled_images import LabelledImage, Object, Splits, by_folder, image_of_objects
from .object_masks import box_around
from .poses import NUM_BOX, are_poses
from .split_lists import read_list
from .split_names import split_of
from .text_files import text_of
from .yolo_boxes import check_boxes

TITLE = "YOLO"
_BOX = 4
"""Numbers after the class of a box: its centre and sides."""
_LEAST_POLYGON = 6
"""Fewest numbers after the class of a polygon: x and y of each corner."""
_BEYOND = 0.01  # fraction of a side by which rounding may leave the image
_LOOKED_AT = 100
"""Number of texts searched for an object, because images may have other texts."""
_LISTS = ("train", "val", "valid", "test")  # keys of data.yaml that name images
_OF_DATA = {"nc", "train"}
"""Keys of a data.yaml with its classes in another file."""
_MOST_CLASSES = 100_000
Line = tuple[int, list[float]]
"""Class and numbers of one object."""


def find(files: Files) -> dict[str, str]:
    """Return the YOLO texts by image; photographs come before images in folders of masks."""
    for images in (files.photographs, files.images):
        found = _texts_of(files, images)
        first = (_first_line(files, text)[1] for text in found.values())
        if _are_labels([*islice(filter(None, first), _LOOKED_AT)]):
            return found
    return {}


def near_miss(files: Files) -> str:
    """Return a message about the first text that is almost an object, or without image, or ""."""
    with_image = {*_texts_of(files, files.images).values()}
    for text in sorted(with_image):
        number, line = _first_line(files, text)
        with contextlib.suppress(ValueError):
            # Commas may be between the numbers, or in them.
            if len([*map(float, re.findall(r"[^\s,]+", line))]) > _BOX:
                return _mistake(text, number, line)

    for text in files.ending(".txt"):
        _, line = _first_line(files, text)
        if text not in with_image and _are_labels([line]):
            rule = "each YOLO text must have the name of its image, in labels/ for images/ or next"
            return unlike(f"{rule} to it", text, files.photographs)
    return ""


def read(files: Files, found: dict[str, str], warnings: list[str]) -> tuple[list[str], Splits]:
    """Read the classes and the images of all splits; an image without a text shows no object.

    Classes come from data.yaml or classes.txt, splits from data.yaml or the names of folders.
    """
    used = {*found.values()}
    others = used.union(files.class_files)
    lost = [
        name
        for name in files.ending(".txt")
        if name not in others and "labels" in os.path.dirname(name.lower()).split("/")
    ]
    rule = "each file in labels/ must have an image in images/ with the same name"
    refuse_missing(rule, lost, len(used) + len(lost), files.unread)

    watched = watch(list(found.items()), "reading annotations")
    lines = _read_lines(files, dict(watched), warnings)
    check_boxes({found[image]: own for image, own in lines.items()})
    settings = _settings(files)
    shown = {found[image]: [*map(itemgetter(0), own)] for image, own in lines.items()}
    classes = _read_classes(files, settings, shown, warnings)

    names = files.images if any(map(is_label_image, found)) else files.photographs
    images = {
        name: image_of_objects(files.path(name), map(_object, lines.get(name, ())), in_shares=True)
        for name in names
    }
    first, content = next(iter(settings.items()), ("", {}))
    return classes, _listed(files, content, first, images) or by_folder(images)


def _read_classes(
    files: Files,
    settings: Mapping[str, dict[str, Any]],
    shown: Mapping[str, list[int]],
    warnings: list[str],
) -> list[str]:
    """Read the classes, compared with the indices that each text has."""
    lists = {name: content["names"] for name, content in settings.items() if "names" in content}
    if listed := agreed(lists | other_lists(files), warnings):
        classes, source = listed
        _check_counts(files, settings, classes, source)
        check_indices(shown.items(), classes, source)
        return classes

    for name, content in settings.items():
        said = str(content.get("nc", "")).strip()
        if said.isdigit():
            check_indices(shown.items(), range(int(said)), f"nc of {name}")
    largest = max(chain.from_iterable(shown.values()), default=0)
    return numbered_classes(largest, warnings)


def _texts_of(files: Files, images: Sequence[str]) -> dict[str, str]:
    """Return the existing texts by image.

    For images/a.jpg these are labels/a.txt, with any folders before and after, or images/a.txt.
    """
    exact = {f"{text[:-4]}.txt": text for text in files.ending(".txt")}
    texts = {spelled(name): text for name, text in exact.items()} | exact
    found = {}
    for image in images:
        stem = image.rpartition(".")[0]
        names = [f"{stem}.txt"]
        if below := re.fullmatch("(.*/)?images/(.*)", stem, re.IGNORECASE):
            folders = ("labels", "Labels", "LABELS")
            names[:0] = [f"{below[1] or ''}{folder}/{below[2]}.txt" for folder in folders]
        names += [*map(spelled, names)]
        found[image] = next(filter(None, map(texts.get, names)), "")
    return {image: text for image, text in found.items() if text}


def _first_line(files: Files, text: str) -> tuple[int, str]:
    """Return number and content of the first line that is not blank; 0 and "" without one."""
    numbered = enumerate(text_of(files.root / text, "replace").splitlines(), 1)
    return next(((number, line) for number, line in numbered if line.strip()), (0, ""))


def _are_labels(lines: Sequence[str]) -> bool:
    """Whether one line is an object, or all are of poses."""
    return any(map(_numbers, lines)) or are_poses(lines)


def _mistake(text: str, number: int, line: str) -> str:
    return (
        f"{text}, line {number}: must be 'class x y width height' or 'class x1 y1 x2 y2 x3 y3 ...' "
        f"(a polygon), with a class index up to {_MOST_CLASSES:,} and coordinates from 0 to 1, but "
        f"is {line[:60]!r}; rewrite or delete the line."
    )


def _numbers(line: str) -> Line | None:
    """Parse a line; None if it is not an object."""
    try:
        label, *values = map(float, line.split())
    except ValueError:
        return None
    is_object = len(values) == _BOX or (len(values) >= _LEAST_POLYGON and len(values) % 2 == 0)
    is_class = 0 <= label <= _MOST_CLASSES and label.is_integer()
    are_shares = all(-_BEYOND <= value <= 1 + _BEYOND for value in values)
    return (int(label), values) if is_object and is_class and are_shares else None


def _read_lines(
    files: Files, texts: Mapping[str, str], warnings: list[str]
) -> dict[str, list[Line]]:
    """Return the objects by image; of poses only their boxes."""
    written = {}
    for image, text in texts.items():
        numbered = enumerate(files.read_lines(text), start=1)
        written[image] = [(number, line) for number, line in numbered if line.strip()]

    contents = [line for _, line in chain.from_iterable(written.values())]
    is_pose = are_poses(contents)
    if is_pose:
        warnings.append(
            f"all {len(contents)} lines are of poses, a box and keypoints, for example "
            f"{contents[0][:60]!r}: only the boxes are read."
        )

    found: dict[str, list[Line]] = {}
    for image, lines in written.items():
        found[image] = []
        for number, line in lines:
            own = _numbers(" ".join(line.split()[:NUM_BOX]) if is_pose else line)
            if own is None:
                raise UserValueError(_mistake(texts[image], number, line))
            found[image].append(own)
    return found


def _object(line: Line) -> Object:
    label, values = line
    if len(values) == _BOX:
        x, y, width, height = values
        return Object(label, (x - width / 2, y - height / 2, width, height))
    x, y, width, height = box_around([values])
    return Object(label, (x, y, width, height), [values])


def _settings(files: Files) -> dict[str, dict[str, Any]]:
    """Return the YAML files of a data set; their ``names`` become lists."""
    found: dict[str, dict[str, Any]] = {}
    for name in files.ending(".yaml", ".yml"):
        try:
            # BaseLoader keeps names as text: YAML reads yes as True.
            content = yaml.load("\n".join(files.read_lines(name)), yaml.BaseLoader)  # noqa: S506
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise UserValueError(
                f"{name}: must be YAML, but {' '.join(str(error).split())}; edit that line, or "
                "move the file away."
            ) from error
        if not isinstance(content, dict) or not ("names" in content or set(content) >= _OF_DATA):
            continue
        if "kpt_shape" in content:
            raise UserValueError(f"{name}: poses are not read; export boxes or polygons.")
        if "names" in content:
            content["names"] = _names(name, content["names"])
        found[name] = content
    return found


def _check_counts(
    files: Files, settings: Mapping[str, dict[str, Any]], classes: Sequence[str], source: str
) -> None:
    """Check the number of classes in data.yaml and in darknet's obj.data."""
    for name, content in settings.items():
        if "nc" in content:
            check_count(str(content["nc"]), f"nc of {name}", classes, source)
    for name, key, said in files.darknet_settings():
        if key == "classes":
            check_count(said, f"classes of {name}", classes, source)


def _names(name: str, names: Any) -> list[str]:
    is_dict = isinstance(names, dict)
    found = [names.get(str(i)) for i in range(len(names))] if is_dict else names
    are_texts = isinstance(found, list) and all(isinstance(n, str) and n.strip() for n in found)
    if not (found and are_texts):
        raise UserValueError(
            f"{name}: names must be a list of classes or a dict by index from 0, none of them "
            f"empty, but is {reprlib.repr(names)}; write `names: [FIRST, SECOND]`."
        )
    return found


def _listed(
    files: Files, settings: dict[str, Any], source: str, images: dict[str, LabelledImage]
) -> Splits:
    """Return the splits of data.yaml; nothing if it has none, or equal ones."""
    listed: dict[str | None, list[str]] = {}
    for key in _LISTS:
        entries = settings.get(key) or []
        if not isinstance(entries, list):
            entries = [entries]
        for entry in entries:
            names = _named_by(files, str(entry), images)
            if not names and key != "test":
                raise UserValueError(
                    f"{source}: {key} must name a folder or a list of images in the data, but "
                    f"{str(entry)[:60]!r} has none; write its path below the data, or delete {key}."
                )
            listed.setdefault(split_of(key), []).extend(names)

    if listed.get("train") == listed.get("val"):
        return {}
    used = {*chain.from_iterable(listed.values())}
    listed[None] = [name for name in images if name not in used]
    return {split: [*map(images.__getitem__, own)] for split, own in listed.items() if own}


def _named_by(files: Files, entry: str, images: dict[str, LabelledImage]) -> list[str]:
    """Return the images of a folder or list of data.yaml, wherever it was when it was written.

    Leading folders that do not exist are dropped, but not the one that names the split.
    """
    parts = [p for p in entry.replace("\\", "/").split("/") if p not in ("", ".", "..")]
    if not parts:
        return list(images)
    for start in range(len(parts)):
        below = "/".join(parts[start:])
        if split_of(below) != split_of("/".join(parts)):
            break
        found = [name for name in images if f"/{below}/" in f"/{name}"]
        lists = [name for name in files.ending(".txt") if f"/{name}".endswith(f"/{below}")]
        if found or lists:
            return found or read_list(files, lists[0], images)
    return []
