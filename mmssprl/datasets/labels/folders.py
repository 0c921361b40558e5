"""Read a folder per class."""

from collections import defaultdict
from itertools import chain
from pathlib import Path

from ...errors import UserValueError
from .files import Files
from .labelled_images import TRAIN, VAL, LabelledImage, Splits, split_of

TITLE = "a folder per class"
_ByClass = dict[str, list[str]]
"""Names of images by the name of their class."""


def find(files: Files) -> list[tuple[str | None, _ByClass]]:
    """Return the splits with the images of each of their classes; [] for one class.

    Folders of splits hold folders of classes, or the other way round. A single folder around either
    of them is looked through.
    """
    folders = _split_folders(files, "")
    while True:
        found = [(split, _read_class_folders(files, folder)) for folder, split in folders.items()]
        names = {*chain.from_iterable(by_class for _, by_class in found)}
        if len(names) != 1:
            break

        (around,) = names
        folders = {f"{folder}{around}/": split for folder, split in folders.items()}
        if [*folders.values()] == [None]:
            folders = _split_folders(files, *folders)
    return found if names else []


def read(
    files: Files, found: list[tuple[str | None, _ByClass]], warnings: list[str]
) -> tuple[list[str], Splits]:
    """Read the classes, in alphabetical order, and the images of all splits."""
    classes = sorted({*chain.from_iterable(by_class for _, by_class in found)})
    inner = _by_inner_split(found)
    if {TRAIN, None} < {*inner}:
        bare = [*chain.from_iterable(inner[None].values())]
        warnings.append(
            f"folders named train, val or test in folders of classes are not used: {len(bare)} "
            f"images are in none of them, for example {bare[0]}; move them."
        )
    elif TRAIN in inner:
        found = [*inner.items()]

    splits: dict[str | None, list[LabelledImage]] = defaultdict(list)
    for split, by_class in found:
        for title, names in by_class.items():
            label = classes.index(title)
            splits[split] += [
                LabelledImage(files.path(name), label=label, labels=frozenset({label}))
                for name in names
            ]
    return classes, splits


def _read_class_folders(files: Files, below: str) -> _ByClass:
    """Return the images of each class: of each folder directly in ``below`` ("a/"), sorted."""
    classes: _ByClass = defaultdict(list)
    outside: list[str] = []
    for name in files.images:
        if name.startswith(below):
            title, slash, _ = name.removeprefix(below).partition("/")
            (classes[title] if slash else outside).append(name)
    if classes and outside:
        raise UserValueError(
            f"each image must be in the folder of its class, but {len(outside)} are outside of "
            f"the {len(classes)} folders, for example {outside[0]}; move them."
        )
    return dict(sorted(classes.items()))


def _split_folders(files: Files, below: str) -> dict[str, str | None]:
    """Return the folders in ``below`` with their splits if all are named like one, else it."""
    inside = [name.removeprefix(below) for name in files.images if name.startswith(below)]
    tops = {Path(name).parts[0] for name in inside if "/" in name}
    folders = {f"{below}{top}/": split_of(top) for top in sorted(tops)}
    others = [folder for folder, split in folders.items() if split is None]
    if others and {TRAIN, VAL} <= set(folders.values()):
        raise UserValueError(
            f"the data must have folders of splits or of classes, but have train, val and "
            f"{', '.join(others)}; move the others away."
        )
    return {below: None} if others or not folders else folders


def _by_inner_split(found: list[tuple[str | None, _ByClass]]) -> dict[str | None, _ByClass]:
    """Group images by split: their own, or the one that a folder below their class names."""
    splits: dict[str | None, _ByClass] = defaultdict(lambda: defaultdict(list))
    for split, by_class in found:
        for title, names in by_class.items():
            for name in names:
                folder, _, rest = f"/{name}".partition(f"/{title}/")[2].partition("/")
                inner = split_of(folder) if rest else None
                splits[split or inner][title].append(name)
    return splits
