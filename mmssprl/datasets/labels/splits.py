"""Which images train and which validate."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ...errors import UserValueError
from .labelled_images import LabelledImage

TRAIN, VAL, TEST = "train", "val", "test"
_NAMES = {
    "train": TRAIN,
    "training": TRAIN,
    "trainval": TRAIN,
    "val": VAL,
    "valid": VAL,
    "validation": VAL,
    "test": TEST,
    "testing": TEST,
}
Splits = Mapping[str | None, Sequence[LabelledImage]]
"""Images by the split that the data name; None for those of no split."""


def split_of(name: str) -> str | None:
    """Return the split that a path names: in its last part, or else in a folder, or None.

    'annotations/instances_train2014.json' is of 'train', 'valid/_annotations.coco.json' of 'val'.
    """
    for part in reversed(Path(name).parts):
        for word in re.split(r"[^a-z]+", part.lower()):
            if word in _NAMES:
                return _NAMES[word]
    return None


def by_folder(images: Mapping[str, LabelledImage]) -> Splits:
    """Return images, given by their names, by the split that their folder names."""
    splits: dict[str | None, list[LabelledImage]] = defaultdict(list)
    for name, image in images.items():
        splits[split_of(Path(name).parent.as_posix())].append(image)
    return splits


def choose_splits(
    splits: Splits, *, share: float, seed: int
) -> tuple[list[LabelledImage], list[LabelledImage], str]:
    """Return the images to train on and to validate with, and how they were chosen.

    The data's own splits count where there are two; 'test' validates where there is no 'val'.
    Otherwise ``share`` of the images is held out by ``seed``: of each class, where each image has
    one, else of all.
    """
    named = {name: images for name, images in splits.items() if name is not None}
    if TRAIN in named and (VAL in named or TEST in named):
        validating = VAL if VAL in named else TEST
        rest = sum(map(len, splits.values())) - len(named[TRAIN]) - len(named[validating])
        unused = f"; {rest} other images are not used" if rest else ""
        return (
            list(named[TRAIN]),
            list(named[validating]),
            f"the data's own {TRAIN} and {validating}{unused}",
        )
    if set(named) == {VAL} or set(named) == {TEST}:
        raise UserValueError(
            f"the data must have images to train on, but all are of the split "
            f"{next(iter(named))}; add a split named train, or rename this one."
        )
    images = [image for part in splits.values() for image in part]
    held_out = _draw(images, share, seed)
    train = [image for index, image in enumerate(images) if index not in held_out]
    val = [image for index, image in enumerate(images) if index in held_out]
    each = "each class of " if images[0].label is not None else ""
    return train, val, f"{share:.0%} of {each}{len(images)} images held out, seed {seed}"


def _draw(images: Sequence[LabelledImage], share: float, seed: int) -> set[int]:
    """Return the indices of the images that are held out."""
    groups: dict[int | None, list[int]] = defaultdict(list)
    for index, image in enumerate(images):
        groups[image.label].append(index)
    rng = np.random.default_rng(seed)
    held_out: set[int] = set()
    for _, members in sorted(groups.items(), key=lambda group: group[1][0]):
        # A class of one image trains.
        count = min(len(members) - 1, max(1, round(share * len(members))))
        held_out.update(np.asarray(members)[rng.permutation(len(members))[:count]].tolist())
    if not held_out:
        raise UserValueError(
            "some class must have two images, one to train on and one to validate with, but none "
            f"of {len(images)} labelled images has a second; label more."
        )
    return held_out
