"""Read a folder per class."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from ...console.wording import counted
from ...errors import UserValueError
from .agreement import spelled
from .files import Files
from .labelled_images import LabelledImage, Splits
from .other_labels import warn_of_other_labels
from .split_names import TRAIN, VAL, split_in_words, split_of, splits_of

TITLE = "a folder per class"
_OF_IMAGES = ("images", "image", "imgs", "img")
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


def near_miss(files: Files) -> str:
    """Return a message about the only class, or ""."""
    titles = {Path(name).parent.name for name in files.images} - {""}
    if len(titles) != 1:
        return ""
    return (
        "a classifier needs a folder of images for each of two classes or more, but "
        f"{files.root} has only {titles.pop()}; add other classes, or labels of another layout."
    )


def read(
    files: Files, found: list[tuple[str | None, _ByClass]], warnings: list[str]
) -> tuple[list[str], Splits]:
    """Read the classes, in alphabetical order, and the images of all splits."""
    classes = sorted({*map(spelled, chain.from_iterable(by_class for _, by_class in found))})
    _warn_of_left_out(files, found, warnings)
    # A train is a vehicle, too.
    if named := [x for x in classes if split_of(x) not in (None, TRAIN) or x.lower() in _OF_IMAGES]:
        warnings.append(
            f"{named[0]} is read as a class next to {counted(len(classes) - 1, 'other')}; move its "
            "images away if they are a split, or of all classes."
        )

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
            label = classes.index(spelled(title))
            splits[split] += [
                LabelledImage(files.path(name), label=label, labels=frozenset({label}))
                for name in names
            ]
    return classes, splits


def _warn_of_left_out(
    files: Files, found: list[tuple[str | None, _ByClass]], warnings: list[str]
) -> None:
    """Warn of images in other formats or no folder of a class, and of labels that are not read."""
    if unread := files.unread:
        warnings.append(
            f"{len(unread)} files are images of formats that are not read, for example "
            f"{unread[0]}: they are left out, and so are folders without other images; convert "
            "them to JPEG or PNG."
        )

    inside: dict[str, None] = {}
    for _, by_class in found:
        inside.update(dict.fromkeys(chain.from_iterable(by_class.values())))
    warn_of_other_labels(files, [*inside], warnings)
    if outside := [name for name in files.images if name not in inside]:
        warnings.append(
            f"{len(outside)} of {len(files.images)} images are in no folder of a class, for "
            f"example {outside[0]}: they are not used; sort them into such folders."
        )


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
    tops = sorted({Path(name).parts[0] for name in inside if "/" in name})
    hold_folders = any(name.count("/") > 1 for name in inside)
    splits = splits_of(tops, in_words=hold_folders)
    if tops and None not in splits.values():
        return {_unwrapped(files, f"{below}{top}/", split): split for top, split in splits.items()}

    if {TRAIN, VAL} <= {*splits.values()} or _are_split(inside, splits):
        raise UserValueError(
            f"the data must have folders of splits or of classes, but have {', '.join(tops)}; "
            "name all splits train, val or test, and move other folders away; rename a class that "
            "looks like a split."
        )
    return {below: None}


def _unwrapped(files: Files, folder: str, split: str | None) -> str:
    """Return the only folder in one of a split if it is called like the split again, else it."""
    inside = [*_read_class_folders(files, folder)]
    is_again = split is not None and [*map(split_in_words, inside)] == [split]
    return f"{folder}{inside[0]}/" if is_again else folder


def _are_split(names: Sequence[str], splits: Mapping[str, str | None]) -> bool:
    """Whether folders of splits are among these: they hold folders of the same names.

    A class may be called train or train_station.
    """
    words = {top: split_in_words(top) for top in splits}
    if TRAIN not in words.values():
        return False

    inner: dict[str, set[str]] = defaultdict(set)
    for folder in {name.rpartition("/")[0] for name in names}:
        top, *below = folder.split("/")
        inner[top].update(part for part in below if _may_be_class(part))

    for train in (top for top in splits if words[top] == TRAIN):
        for other in splits:
            is_pair = len(splits) == 2 and splits[train] == TRAIN
            may_be = words[other] not in (None, TRAIN) or is_pair
            if other != train and may_be and inner[train] & inner[other]:
                return True
    return False


def _may_be_class(folder: str) -> bool:
    """Whether a folder may be named after a class, and not after a split, a year or its content."""
    return split_of(folder) is None and not folder.isdigit() and folder.lower() not in _OF_IMAGES


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
