"""What a folder of labelled images holds, whatever its layout, and which of them validate."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...console.wording import counted
from ...errors import UserValueError
from ..subset import choose_subset

_MOST_NAMED = 8
TRAIN, VAL, TEST = "train", "val", "test"
_NAMES = {
    **dict.fromkeys(("train", "training", "trainval"), TRAIN),
    **dict.fromkeys(("val", "valid", "validation"), VAL),
    **dict.fromkeys(("test", "testing"), TEST),
}


@dataclass(frozen=True)
class Object:
    """One annotated object, of the class of index ``label``."""

    label: int
    box: tuple[float, float, float, float] | None = None
    """x, y, width and height in pixels; None where only the class is known."""
    segmentation: Any = None
    """Polygons or run lengths, as in COCO; None without a mask."""
    is_crowd: bool = False
    """Whether it is a crowd or "difficult", and counts in no score of detection."""


@dataclass(frozen=True)
class LabelledImage:
    """One image and its labels, of which a layout has one kind: objects, label or mask."""

    path: str
    objects: tuple[Object, ...] = ()
    label: int | None = None
    """Index of the one class that a folder names."""
    mask: str | None = None
    """Path of a PNG of class indices, of the image's size."""
    labels: frozenset[int] = frozenset()
    """Indices of all classes in the image."""
    unknown: frozenset[int] = frozenset()
    """Those of ``labels`` of which the image has "difficult" objects only."""
    size: tuple[int, int] = (0, 0)
    """Width and height in pixels, as the image is shown; 0, 0 before it is opened."""
    frame: tuple[int, int] = (0, 0)
    """Width and height that the labels say, in whose pixels they are; 0 where they do not."""
    in_shares: bool = False
    """Whether boxes and polygons are shares of width and height, not pixels."""

    @property
    def has_scored(self) -> bool:
        """Whether it shows an object that is no crowd."""
        return any(not thing.is_crowd for thing in self.objects)


def image_of_objects(path: str, objects: Iterable[Object], **fields: Any) -> LabelledImage:
    """Return an image with the classes of its objects; ``fields`` are the other ones."""
    own = tuple(objects)
    return LabelledImage(path, own, labels=frozenset(thing.label for thing in own), **fields)


def joined(images: Sequence[LabelledImage], warnings: list[str]) -> list[LabelledImage]:
    """Return each image once, with the objects of all its entries, equal ones once.

    ValueError if its entries say different sizes.
    """
    entries: dict[str, list[LabelledImage]] = defaultdict(list)
    for image in images:
        entries[image.path].append(image)
    if len(entries) == len(images):
        return list(images)
    doubled = [path for path, own in entries.items() if len(own) > 1]
    warnings.append(
        f"{counted(len(doubled), 'image')} of {len(entries)} have several entries, for example "
        f"{doubled[0]}: they are joined."
    )
    return [_join(path, own) for path, own in entries.items()]


def _join(path: str, own: Sequence[LabelledImage]) -> LabelledImage:
    frames = {image.frame for image in own if all(image.frame)}
    if len(frames) > 1:
        raise UserValueError(
            f"{path}: the {len(own)} entries of an image must say one size, but say "
            f"{' and '.join(map(str, sorted(frames)))}; repair the annotation file."
        )
    objects: list[Object] = []
    for image in own:
        objects += [thing for thing in image.objects if thing not in objects]
    known = frozenset().union(*(image.labels - image.unknown for image in own))
    unknown = frozenset().union(*(image.unknown for image in own)) - known
    frame = frames.pop() if frames else (0, 0)
    return replace(
        own[0], objects=tuple(objects), labels=known | unknown, unknown=unknown, frame=frame
    )


Splits = Mapping[str | None, Sequence[LabelledImage]]
"""Images by the split that the data name; None for those of no split."""


@dataclass(frozen=True)
class LabelledData:
    """A folder's classes, its images to train on and its images to validate with.

    ``layout`` and ``split`` say what was found and how the splits came about.
    """

    root: Path
    layout: str
    classes: list[str]
    train: list[LabelledImage]
    val: list[LabelledImage]
    split: str
    warnings: list[str] = field(default_factory=list)

    @property
    def is_single_label(self) -> bool:
        """Whether each image has exactly one class."""
        return self.train[0].label is not None

    @property
    def objects(self) -> list[Object]:
        """The objects of all images."""
        return [thing for image in (*self.train, *self.val) for thing in image.objects]

    @property
    def has_masks(self) -> bool:
        """Whether each object has a mask; crowds may do without."""
        return all(thing.segmentation or thing.is_crowd for thing in self.objects)

    @property
    def num_boxes(self) -> int:
        """How many objects have a box."""
        return sum(thing.box is not None for thing in self.objects)

    def count(self, images: Iterable[LabelledImage]) -> list[int]:
        """Return the number of images that show each class."""
        counts = [0] * len(self.classes)
        for image in images:
            for label in image.labels:
                counts[label] += 1
        return counts

    def describe(self) -> str:
        """Return in one line what was found, and each of the warnings in a line of its own."""
        boxes = [f"{self.num_boxes:,} boxes"] if self.num_boxes else []
        more = ", ..." if len(self.classes) > _MOST_NAMED else ""
        parts = [
            self.layout,
            f"{counted(len(self.train) + len(self.val), 'image')} ({len(self.train):,} to train on "
            f"and {len(self.val):,} to validate with: {self.split})",
            *boxes,
            f"{len(self.classes):,} classes ({', '.join(self.classes[:_MOST_NAMED])}{more})",
        ]
        warnings = (f"warning: {text}" for text in self.warnings)
        return "\n".join([f"{self.root}: {', '.join(parts)}", *warnings])


def split_of(name: str, *, is_file: bool = False) -> str | None:
    """Return the split that a path names: in its last folder that is called like one, or None.

    'train2014' and 'valid' are splits, 'train_station' is none. A file names one by any word:
    'annotations/instances_train2014.json' is of 'train'.
    """
    *folders, last = Path(name).parts or ("",)
    for word in re.split(r"[^a-z]+", last.lower()) if is_file else [_folder_word(last)]:
        if word in _NAMES:
            return _NAMES[word]
    return next((_NAMES[w] for w in map(_folder_word, reversed(folders)) if w in _NAMES), None)


def _folder_word(folder: str) -> str:
    return re.sub(r"[_-]?\d+$", "", folder.lower())


def by_folder(images: Mapping[str, LabelledImage]) -> Splits:
    """Return images, given by their names, by the split that their folder names."""
    splits: dict[str | None, list[LabelledImage]] = defaultdict(list)
    for name, image in images.items():
        splits[split_of(Path(name).parent.as_posix())].append(image)
    return splits


def choose_splits(
    splits: Splits, *, share: float, seed: int, train_share: float = 1.0
) -> tuple[list[LabelledImage], list[LabelledImage], str]:
    """Return the images to train on and to validate with, and how they were chosen.

    The data's own splits count where there are two; 'test' validates where there is no 'val'.
    Otherwise ``share`` of the images is held out by ``seed``: of each class, where each image has
    one, else of all. So ``train_share`` of the others is kept, by ``choose_subset``.
    """
    train, val, how = _divide(splits, share, seed)
    if train_share == 1:
        return train, val, how
    kept = [i for members in _by_label(train) for i in choose_subset(members, train_share, seed)]
    how += f"; {100 * train_share:g} % of {len(train):,} are trained on, drawn by seed {seed}"
    return [train[index] for index in sorted(kept)], val, how


def _divide(
    splits: Splits, share: float, seed: int
) -> tuple[list[LabelledImage], list[LabelledImage], str]:
    named = {name: images for name, images in splits.items() if name is not None}
    if TRAIN in named and len(named) > 1:
        validating = VAL if VAL in named else TEST
        train, val = list(named[TRAIN]), list(named[validating])
        rest = sum(map(len, splits.values())) - len(train) - len(val)
        unused = f"; {rest} other images are not used" if rest else ""
        return train, val, f"the data's own {TRAIN} and {validating}{unused}"
    if len(named) == 1 and TRAIN not in named:
        raise UserValueError(
            f"the data must have images to train on, but all are of the split "
            f"{next(iter(named))}; add a split named train, or rename this one."
        )
    images = [image for part in splits.values() for image in part]
    rng = np.random.default_rng(seed)
    held_out: set[int] = set()
    for members in _by_label(images):
        # A class of one image trains.
        count = min(len(members) - 1, max(1, round(share * len(members))))
        held_out.update(np.asarray(members)[rng.permutation(len(members))[:count]].tolist())
    if not held_out:
        raise UserValueError(
            "some class must have two images, one to train on and one to validate with, but none "
            f"of {len(images)} labelled images has a second; label more."
        )
    train = [image for index, image in enumerate(images) if index not in held_out]
    val = [image for index, image in enumerate(images) if index in held_out]
    each = "each class of " if images[0].label is not None else ""
    return train, val, f"{share:.0%} of {each}{len(images)} images held out, seed {seed}"


def _by_label(images: Sequence[LabelledImage]) -> list[list[int]]:
    """Return indices of images in groups of one label, all together where they have none."""
    groups: dict[int | None, list[int]] = defaultdict(list)
    for index, image in enumerate(images):
        groups[image.label].append(index)
    return [*groups.values()]  # in the order of their first members
