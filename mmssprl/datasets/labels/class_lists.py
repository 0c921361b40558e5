"""Read every list of classes in the data, and compare them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from ...errors import UserValueError
from .agreement import differing, plain
from .coco_file import read_json
from .files import Files
from .labelled_images import LabelledImage, Splits, all_images, map_images

_BACKGROUND = "background"
_LABELME = ["__ignore__", "_background_"]
"""First lines of LabelMe's labels.txt: the first has no index, the second only in label images."""
_NOTES = "notes.json"
"""Label Studio's second list, next to classes.txt."""
_ONE_LIST = "the data must have one list of classes"


def class_files(files: Files, unindexed: Sequence[str] = _LABELME[:1]) -> dict[str, list[str]]:
    """Return the classes that classes.txt, its like and the list of obj.data name, by file.

    A list that begins with the first of ``unindexed`` has no index for all of them.
    """
    found = {}
    for name in files.class_files:
        titles = _titles(files, name)
        if titles[0] == unindexed[0]:
            titles = [title for title in titles if title not in unindexed]
        if titles:
            found[name] = titles
    return found


def other_lists(files: Files) -> dict[str, list[str]]:
    """Return the lists for boxes: classes.txt and its like without a background, notes.json."""
    found = class_files(files, _LABELME)
    for name, listed in found.items():
        if name.lower().endswith("labelmap.txt") and listed[0].lower() == _BACKGROUND:
            found[name] = listed[1:]

    for name in files.ending(_NOTES):
        content = read_json(files.root / name, name)
        entries = content.get("categories") if isinstance(content, dict) else None
        if not isinstance(entries, list) or not entries:
            continue
        if all(isinstance(entry, dict) and "name" in entry for entry in entries):
            found[name] = [str(entry["name"]) for entry in entries]
    return found


def agreed(lists: Mapping[str, list[str]], warnings: list[str]) -> tuple[list[str], str] | None:
    """Return the first list and its source; ValueError if another one differs.

    Names that differ only in case, spaces or the spelling of accents are a warning.
    """
    if not lists:
        return None

    (first, classes), *others = lists.items()
    for name, listed in others:
        pairs = [*zip_longest(classes, listed, fillvalue="")]
        unequal = [f"index {i}: {a!r} and {b!r}" for i, (a, b) in enumerate(pairs) if a != b]

        is_other = [*map(plain, classes)] != [*map(plain, listed)]
        if is_other:
            remedy = "correct one, or remove it"
            raise UserValueError(differing(_ONE_LIST, first, name, unequal, len(pairs), remedy))
        if unequal:
            remedy = f"only case, spaces or the spelling of accents differ, and {first} is used"
            warnings.append(differing(_ONE_LIST, first, name, unequal, len(pairs), remedy))
    return classes, first


def check_count(said: str, place: str, classes: Sequence[str], source: str) -> None:
    """Raise ValueError unless a number of classes, as text, is the number of their names."""
    number = said.strip()
    if number != str(len(classes)):
        raise UserValueError(
            f"the data must have one number of classes, but {place} is {number[:20]} and {source} "
            f"names {len(classes)}, for example {classes[-1]!r}; correct one of them."
        )


def without_unused_twins(
    classes: list[str], splits: Splits, warnings: list[str]
) -> tuple[list[str], Splits]:
    """Drop each class without an object if another class has the same name, at least but one."""
    used = set().union(*(image.labels for image in all_images(splits)))
    known = {classes[index] for index in used}
    twins = [
        index
        for index, name in enumerate(classes)
        if index not in used and (name in known or classes.index(name) < index)
    ]
    if not twins:
        return classes, splits

    warnings.append(
        f"{len(twins)} of {len(classes)} classes have no object and the name of another class, "
        f"for example {classes[twins[0]]!r}: they are left out."
    )
    kept = [index for index in range(len(classes)) if index not in twins]
    new = {old: index for index, old in enumerate(kept)}

    def moved(image: LabelledImage) -> LabelledImage:
        objects = tuple(replace(thing, label=new[thing.label]) for thing in image.objects)
        labels = frozenset(map(new.__getitem__, image.labels))
        unknown = frozenset(map(new.__getitem__, image.unknown))
        return replace(image, objects=objects, labels=labels, unknown=unknown)

    return [classes[index] for index in kept], map_images(splits, moved)


def numbered_classes(largest: int, warnings: list[str]) -> list[str]:
    """Return 'class 0', 'class 1', ... up to an index, with a warning."""
    warnings.append(
        "the classes have no names: list them in classes.txt, one per line, from index 0."
    )
    return [f"class {k}" for k in range(largest + 1)]


def warn_of_similar(classes: Sequence[str], warnings: list[str]) -> None:
    """Warn of names of classes that differ only in case, spaces or the spelling of accents."""
    written = defaultdict(list)
    for name in classes:
        written[plain(name)].append(name)
    similar = [names for names in written.values() if len({*names}) > 1]
    if similar:
        warnings.append(
            f"{len(similar)} of {len(written)} names of classes are written in several ways, for "
            f"example {similar[0][0]!r} and {similar[0][1]!r}: they are different classes; rename "
            "one if they are not."
        )


def _titles(files: Files, name: str) -> list[str]:
    lines = files.read_lines(name)
    # CVAT's labelmap.txt has comments and name:colour:parts:actions.
    is_map = name.lower().endswith("labelmap.txt")
    if is_map:
        lines = [line.split(":")[0] for line in lines if not line.startswith("#")]
    lines = "\n".join(lines).rstrip().split("\n")
    titles = [line.strip() for line in lines]
    if "" in titles:
        line = titles.index("") + 1
        raise UserValueError(f"{name}: line {line} must name a class; fill it.")
    return titles
