"""Groups of images that show one picture, and draws that never separate a group.

Images are of one group if their bytes are equal, or if Roboflow made them of one image and named
them NAME.rf.HASH. A *unit* is the list of the indices of a group.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

_VERSION = re.compile(r"(.+)\.rf\.[^.]+", re.DOTALL)
"""Stem of a version; the first part is the name of the image that it was made of."""


def version_of(path: str, label: int | None = None) -> str:
    """Return the name of the image that Roboflow made a version of, or "".

    ``label`` is the only class of each image, if there is one: folders of classes often number
    their images alike.
    """
    found = _VERSION.fullmatch(Path(path).stem)
    if not found:
        return ""
    return found[1] if label is None else f"{found[1]} of class {label}"


def group_by(keys: Sequence[tuple[str, ...]]) -> list[int]:
    """Return the index of the first member of the group of each image.

    Images are linked by equal keys at one place; "" links nothing.
    """
    group = [*range(len(keys))]
    first: dict[tuple[int, str], int] = {}

    def root(index: int) -> int:
        while group[index] != index:
            index = group[index]
        return index

    for index, own in enumerate(keys):
        for place in filter(lambda place: place[1], enumerate(own)):
            one = root(index)
            other = root(first.setdefault(place, index))
            group[max(one, other)] = min(one, other)
    return [root(index) for index in range(len(keys))]


def units_of(groups: Sequence[int]) -> list[list[int]]:
    """Return the units in the order of their first members, given the group of each image."""
    units: dict[int, list[int]] = defaultdict(list)
    for index, group in enumerate(groups):
        units[group].append(index)
    return [*units.values()]


def hold_out(units: Sequence[list[int]], count: int) -> list[int]:
    """Return the images of the first units, at most ``count``, but at least one unit of several.

    Units that do not fit are passed over: few large groups must not fill the validation images.
    """
    held_out: list[int] = []
    for unit in units:
        if len(held_out) + len(unit) <= count:
            held_out += unit
    if not held_out and len(units) > 1:
        return min(units, key=len)
    return held_out


def keep(units: Sequence[list[int]], count: int) -> list[int]:
    """Return the images of the first units, at least ``count``.

    A smaller count keeps a part of what a larger one keeps.
    """
    kept: list[int] = []
    for unit in units:
        if len(kept) < count:
            kept += unit
    return kept
