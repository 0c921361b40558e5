"""Read YOLO's text files: one per image, one line per object, in labels/ or with the images."""

import contextlib
import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import yaml

from ...console.progress import watch
from ...errors import UserValueError
from .class_lists import agreed, check_count, other_lists
from .files import CLASS_FILES, Files, check_indices, is_label_image, refuse_missing, unlike
from .labelled_images import LabelledImage, Object, Splits, by_folder, image_of_objects, split_of
from .poses import NUM_BOX, are_poses
from .split_lists import read_list

TITLE = "YOLO"
_BOX, _LEAST_POLYGON = 4, 6
"""Numbers after the class: centre and sides of a box, or x and y of each corner of a polygon."""
_BEYOND = 0.01  # fraction of a side by which rounding may leave the image
_LOOKED_AT = 100
"""Number of texts searched for an object, because images may have other texts."""
_LISTS = ("train", "val", "valid", "test")  # keys of data.yaml that name images
_OF_DATA = {"nc", "train"}
"""Keys of a data.yaml whose classes are in another file."""
_MOST_CLASSES = 100_000
Line = tuple[int, list[float]]
"""Class and numbers of one object."""


def find(files: Files) -> dict[str, str]:
    """Return the YOLO texts by image; photographs come before images in folders of masks."""
    for images in (files.photographs, files.images):
        found = _texts_of(files, images)
        first = (line for text in found.values() for _, line in islice(_lines(files, text), 1))
        looked_at = [*islice(first, _LOOKED_AT)]
        if any(map(_numbers, looked_at)) or are_poses(looked_at):
            return found
    return {}


def near_miss(files: Files) -> str:
    """Return a message about the first text that is almost an object, or without image, or ""."""
    with_image = {*_texts_of(files, files.images).values()}
    for text in sorted(with_image):
        for number, line in islice(_lines(files, text), 1):
            with contextlib.suppress(ValueError):
                if len([*map(float, line.split())]) > _BOX:
                    return _mistake(text, number, line)
    for text in files.ending(".txt"):
        first = [line for _, line in islice(_lines(files, text), 1)]
        if text not in with_image and (any(map(_numbers, first)) or are_poses(first)):
            rule = "each YOLO text must have the name of its image, in labels/ for images/ or next"
            return unlike(f"{rule} to it", text, files.photographs)
    return ""


def read(files: Files, found: dict[str, str], warnings: list[str]) -> tuple[list[str], Splits]:
    """Read the classes and the images of all splits; an image without a text shows no object.

    Classes come from data.yaml or classes.txt, splits from data.yaml or the names of folders.
    """
    used = set(found.values())
    lost = [
        name
        for name in files.ending(".txt")
        for *folders, last in [name.lower().split("/")]
        if name not in used and "labels" in folders and last not in CLASS_FILES
    ]
    rule = "each file in labels/ must have an image in images/ with the same name"
    refuse_missing(rule, lost, len(used) + len(lost))
    texts = watch(list(found.items()), "reading annotations")
    lines = _read_lines(files, dict(texts), warnings)
    settings = _settings(files)
    lists = {name: content["names"] for name, content in settings.items() if "names" in content}
    shown = [(found[image], [label for label, _ in own]) for image, own in lines.items()]
    if listed := agreed(lists | other_lists(files), warnings):
        classes, source = listed
        _check_counts(files, settings, classes, source)
    else:
        for name, content in settings.items():
            said = str(content.get("nc", "")).strip()
            if said.isdigit():
                check_indices(shown, range(int(said)), f"nc of {name}")
        largest = max((label for own in lines.values() for label, _ in own), default=0)
        classes = files.numbered_classes(largest, warnings)
        source = ""
    check_indices(shown, classes, source)
    names = files.images if any(map(is_label_image, found)) else files.photographs
    images = {
        name: image_of_objects(files.path(name), map(_object, lines.get(name, ())), in_shares=True)
        for name in names
    }
    first, content = next(iter(settings.items()), ("", {}))
    return classes, _listed(files, content, first, images) or by_folder(images)


def _texts_of(files: Files, images: Sequence[str]) -> dict[str, str]:
    """Return the existing texts by image.

    For images/a.jpg these are labels/a.txt, with any folders before and after, or images/a.txt.
    """
    texts, found = set(files.ending(".txt")), {}
    for image in images:
        stem = image.rpartition(".")[0]
        below = re.fullmatch("(.*/)?images/(.*)", stem, re.IGNORECASE)
        folders = ("labels", "Labels", "LABELS") if below else ()
        names = [f"{below[1] or ''}{folder}/{below[2]}" for folder in folders]  # type: ignore[index]
        found[image] = next((f"{n}.txt" for n in (*names, stem) if f"{n}.txt" in texts), "")
    return {image: text for image, text in found.items() if text}


def _lines(files: Files, text: str) -> Iterator[tuple[int, str]]:
    """Yield number and content of the lines that are not blank."""
    lines = (files.root / text).read_text("utf-8-sig", errors="replace").splitlines()
    return ((number, line) for number, line in enumerate(lines, 1) if line.strip())


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

    contents = [line for lines in written.values() for _, line in lines]
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
            read_one = _numbers(" ".join(line.split()[:NUM_BOX]) if is_pose else line)
            if read_one is None:
                raise UserValueError(_mistake(texts[image], number, line))
            found[image].append(read_one)
    return found


def _object(line: Line) -> Object:
    label, values = line
    if len(values) == _BOX:
        x, y, width, height = values
        return Object(label, (x - width / 2, y - height / 2, width, height))
    left, top = min(values[::2]), min(values[1::2])
    box = (left, top, max(values[::2]) - left, max(values[1::2]) - top)
    return Object(label, box, [values])


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
        for entry in entries if isinstance(entries, list) else [entries]:
            names = _named_by(files, str(entry), images)
            if not names and key != "test":
                raise UserValueError(
                    f"{source}: {key} must name a folder or a list of images in the data, but "
                    f"{str(entry)[:60]!r} has none; write its path below the data, or delete {key}."
                )
            listed.setdefault(split_of(key), []).extend(names)
    if listed.get("train") == listed.get("val"):
        return {}
    used = {name for names in listed.values() for name in names}
    listed[None] = [name for name in images if name not in used]
    return {split: [images[name] for name in names] for split, names in listed.items() if names}


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
