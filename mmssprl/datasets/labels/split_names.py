"""Tell the splits of images from the names of their folders."""

import re
from collections.abc import Iterable
from pathlib import Path

TRAIN = "train"
VAL = "val"
TEST = "test"
_NAMES = {
    **dict.fromkeys(("train", "training", "trainval"), TRAIN),
    **dict.fromkeys(("val", "valid", "validation"), VAL),
    **dict.fromkeys(("test", "testing"), TEST),
}
"""Splits by the names of their folders."""


def split_of(name: str, *, is_file: bool = False) -> str | None:
    """Return the split in the last folder of a path that is named like one, or None.

    'train2014' and 'valid' are splits, 'train_station' is not. In the name of a file, any word
    counts: 'annotations/instances_train2014.json' is 'train'.
    """
    parts = Path(name.lower()).parts
    words = _words(parts[-1]) if is_file else []
    words += [re.sub(r"[_-]?\d+$", "", part) for part in reversed(parts)]
    return next((_NAMES[word] for word in words if word in _NAMES), None)


def splits_of(folders: Iterable[str], *, in_words: bool) -> dict[str, str | None]:
    """Return the split of each folder, as ``split_of`` does.

    With ``in_words``, a word in a longer name counts if each folder has another one: 'training_set'
    and 'test_set' are splits, but not 'train_station' next to 'harbour', or 'train_old' next to
    'train'.
    """
    found = {folder: split_of(folder) for folder in folders}
    if not in_words or None not in found.values():
        return found
    words = {folder: split_in_words(folder) for folder in found}
    named = [*words.values()]
    are_splits = TRAIN in named and len(named) > 1 and None not in named
    return words if are_splits and len({*named}) == len(named) else found


def split_in_words(folder: str) -> str | None:
    """Return the split in the last folder of a path with a word for one."""
    for part in reversed(Path(folder.lower()).parts):
        for word in _words(part):
            if word in _NAMES:
                return _NAMES[word]
    return None


def _words(name: str) -> list[str]:
    return re.split("[^a-z]+", name)
