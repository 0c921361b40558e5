"""Read PASCAL VOC's XML files, in any folders of the data."""

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from ...console.progress import watch
from ...errors import UserValueError
from .agreement import spelled
from .files import Files, refuse_missing
from .labelled_images import Object, Splits, image_of_objects
from .rotated import is_rotated_object, warn_of_rotated
from .split_lists import image_set_splits, image_sets, meant_by, named_by, read_image_sets

TITLE = "PASCAL VOC"
_WIDER = {"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932"}
"""Declared encodings -> the wider ones that Windows writes."""
Named = list[tuple[str, Object]]
"""Objects with the names of their classes; ``label`` is not set yet."""


def find(files: Files) -> dict[str, ET.Element]:
    """Return the root of each XML file with annotations, by name."""
    names = watch(files.ending(".xml"), "reading annotations")
    parsed = {name: parse(files.root / name, name) for name in names}
    return {name: root for name, root in parsed.items() if root.tag == "annotation"}


def read(
    files: Files, found: dict[str, ET.Element], warnings: list[str]
) -> tuple[list[str], Splits]:
    """Read the classes, in alphabetical order, and the images of all splits.

    Classes come from the objects and from the per-class lists of ImageSets/Main. A class is unknown
    in an image if all of its objects there are "difficult".
    """
    lines = [*chain.from_iterable(read_image_sets(files, "Main").values())]
    stems: set[str] = set()
    for line in lines:
        stems.update(spelled(name.rpartition("/")[2]) for name in meant_by(line))
    likely = [name for name in found if not lines or spelled(Path(name).stem) in stems]

    # <filename> is not used: LabelImg keeps the former name of a renamed image there.
    paths = {name: files.find_image(Path(name).stem, name) for name in likely}
    by_line = named_by(lines, {name: path or name for name, path in paths.items()})
    listed = {*chain.from_iterable(by_line.values())}
    used = [name for name in likely if not lines or name in listed]

    missing = [name for name in used if paths[name] is None]
    rule = "each annotation file must have an image in the data"
    refuse_missing(rule, missing, len(used), files.unread)

    named = {name: read_objects(found[name], name) for name in used}
    rotated: list[str] = []
    for name in used:
        items = filter(is_rotated_object, found[name].iter("object"))
        rotated += [f"{item.findtext('name')} in {name}" for item in items]
    warn_of_rotated(rotated, sum(map(len, named.values())), warnings)
    _turn_corners(named, warnings)
    titles = {title for title, _ in chain.from_iterable(named.values())}
    classes = sorted(titles.union(listed_classes(image_sets(files, "Main"))))

    images = {}
    for name, objects in named.items():
        own = [replace(thing, label=classes.index(title)) for title, thing in objects]
        unknown = frozenset(map(classes.index, only_difficult(objects)))
        path = files.path(str(paths[name]))
        frame = _frame(found[name], name)
        images[name] = image_of_objects(path, own, unknown=unknown, frame=frame)
    return classes, image_set_splits(files, "Main", images, "annotations")


def _frame(root: ET.Element, name: str) -> tuple[int, ...]:
    """Return the width and height that an annotation file says; 0 if unknown."""
    sides = [root.findtext(f"size/{side}", "").strip() or "0" for side in ("width", "height")]
    return tuple(map(round, _numbers(sides, f"{name}: width and height")))


def require_boxes(found: dict[str, ET.Element]) -> None:
    """Raise ValueError that names the first file and object without a bndbox."""
    objects: list[tuple[str, ET.Element]] = []
    for name, root in found.items():
        objects += [(name, item) for item in root.iter("object")]
    bare = [(name, item) for name, item in objects if item.find("bndbox") is None]
    if bare:
        name, item = bare[0]
        kind = "only a robndbox, a turned box" if item.find("robndbox") is not None else "none"
        raise UserValueError(
            f"{name}: detect needs a box for each object, a bndbox, but {len(bare)} of "
            f"{len(objects)} have none, for example {item.findtext('name')} has {kind}; export "
            "upright boxes, or use --task classify."
        )


def _turn_corners(named: dict[str, Named], warnings: list[str]) -> None:
    """Exchange corners in the wrong order, in place, with a warning."""
    turned = []
    for name, objects in named.items():
        for number, (title, thing) in enumerate(objects):
            x, y, width, height = thing.box or (0, 0, 0, 0)
            # Both corners are in the box, so that it is two pixels larger than their distance.
            # Corners at 0 are not turned: they are placeholders, since VOC counts from 1.
            if width < 0 < x + width:
                x += width - 1
                width = 2 - width
            if height < 0 < y + height:
                y += height - 1
                height = 2 - height
            box = (x, y, width, height)
            if thing.box and box != thing.box:
                turned.append(f"{title} in {name}")
                objects[number] = (title, replace(thing, box=box))

    if turned:
        warnings.append(
            f"{len(turned)} boxes have corners in the wrong order, xmin above xmax or ymin above "
            f"ymax, for example {turned[0]}: they are exchanged."
        )


def parse(path: Path, name: str) -> ET.Element:
    """Return the root of an XML file, which errors call ``name``."""
    data = path.read_bytes()
    declared = re.match(rb"""\s*<\?xml[^>]*encoding\s*=\s*["']([\w.:-]+)""", data)
    encoding = declared[1].decode().lower() if declared else "utf-8"
    try:
        if "utf" in encoding:
            return ET.fromstring(data)
        # The parser knows only UTF and single bytes, Python all encodings.
        text = data.decode(_WIDER.get(encoding, encoding))
        return ET.fromstring(re.sub(r"^\s*<\?xml.*?\?>", "", text))
    except (ET.ParseError, ValueError, LookupError, RecursionError) as error:
        raise UserValueError(
            f"{name}: must be XML, but {error}; export it again, or move it out of the data."
        ) from error


def read_objects(root: ET.Element, name: str) -> Named:
    """Return the objects of an annotation file, which errors call ``name``."""
    found = []
    for item in root.iter("object"):
        title = spelled((item.findtext("name") or "").strip())
        if not title:
            raise UserValueError(f"{name}: each object must have a name, but one has none; add it.")

        box = None
        if item.find("bndbox") is not None:
            corners = [item.findtext(f"bndbox/{key}") for key in ("xmin", "ymin", "xmax", "ymax")]
            what = f"{name}: the corners of the bndbox of {title}"
            left, top, right, bottom = _numbers(corners, what)
            # VOC counts pixels from 1 and includes both corners.
            left = max(0.0, left - 1)
            top = max(0.0, top - 1)
            box = (left, top, right - left, bottom - top)

        mark = (item.findtext("difficult") or "0").strip().lower()
        is_difficult = mark in ("1", "true", "yes")
        found.append((title, Object(0, box, is_crowd=is_difficult)))
    return found


def only_difficult(objects: Named) -> set[str]:
    """Return the classes of which all objects are "difficult"."""
    difficult = {title for title, thing in objects if thing.is_crowd}
    return difficult - {title for title, thing in objects if not thing.is_crowd}


def listed_classes(lists: Iterable[str]) -> list[str]:
    """Return the classes in stems of ImageSets/Main that are named <class>_<image set>."""
    stems = set(lists)
    suffixes = tuple(f"_{name}" for name in stems)
    return sorted({spelled(name[: name.rindex("_")]) for name in stems if name.endswith(suffixes)})


def _numbers(texts: Sequence[str | None], what: str) -> list[float]:
    try:
        found = [float(text or "") for text in texts]
    except ValueError:
        found = [math.nan]
    if not all(map(math.isfinite, found)):
        raise UserValueError(f"{what} must be numbers, but are {texts}; correct the file.")
    return found
