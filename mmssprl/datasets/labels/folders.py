"""Read a folder per class."""

from collections import defaultdict
from pathlib import Path

from ...errors import UserValueError
from .files import Files
from .labelled_images import TRAIN, VAL, LabelledImage, Splits, split_of

TITLE = "a folder per class"


def find(files: Files) -> list[tuple[str | None, dict[str, list[str]]]]:
    """Return the splits with the images of each of their classes; [] for one class."""
    folders = _split_folders(files) or {"": None}
    found = [(split, _read_class_folders(files, folder)) for folder, split in folders.items()]
    return found if len({title for _, titles in found for title in titles}) > 1 else []


def read(
    files: Files, found: list[tuple[str | None, dict[str, list[str]]]], warnings: list[str]
) -> tuple[list[str], Splits]:
    """Read the classes, in alphabetical order, and the images of all splits."""
    classes = sorted({title for _, titles in found for title in titles})
    splits: dict[str | None, list[LabelledImage]] = defaultdict(list)
    for split, titles in found:
        for title, names in titles.items():
            label = classes.index(title)
            splits[split] += [
                LabelledImage(files.path(name), label=label, labels=frozenset({label}))
                for name in names
            ]
    return classes, splits


def _read_class_folders(files: Files, below: str) -> dict[str, list[str]]:
    """Return the images of each class: of each folder directly in ``below`` ("a/"), sorted."""
    classes: dict[str, list[str]] = defaultdict(list)
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


def _split_folders(files: Files) -> dict[str, str | None]:
    """Return the top folders with their splits, if all with images are named like one."""
    tops = {Path(name).parts[0] for name in files.images if "/" in name}
    folders = {f"{top}/": split_of(top) for top in sorted(tops)}
    others = [folder for folder, split in folders.items() if split is None]
    if others and {TRAIN, VAL} <= set(folders.values()):
        raise UserValueError(
            f"the data must have folders of splits or of classes, but have train, val and "
            f"{', '.join(others)}; move the others away."
        )
    return {} if others else folders
