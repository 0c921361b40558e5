"""Labelled images of any layout, and their split into training and validation images."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ...console.wording import counted
from ...errors import UserValueError
from ..subset import rank
from .groups import group_by, hold_out, keep, units_of, version_of
from .split_names import TEST, TRAIN, VAL, splits_of

_MOST_NAMED = 8
Colour = tuple[int, int, int]
"""Red, green and blue from 0 to 255."""


@dataclass(frozen=True)
class Object:
    """One annotated object, of the class of index ``label``."""

    label: int
    box: tuple[float, float, float, float] | None = None
    """x, y, width and height in pixels; None where only the class is known."""
    segmentation: Any = None
    """Polygons or run lengths, as in COCO; None without a mask."""
    is_crowd: bool = False
    """Whether it is a crowd or "difficult", which detection scores ignore."""


@dataclass(frozen=True)
class LabelledImage:
    """One image with one kind of labels: objects, a label or a mask."""

    path: str
    objects: tuple[Object, ...] = ()
    label: int | None = None
    """Index of the class that its folder names."""
    mask: str | None = None
    """Path of a label image of the same size."""
    mask_colours: tuple[Colour, ...] = ()
    """Colours of the classes in the label image; () if its pixels are indices."""
    mask_orientation: int = 1
    """EXIF orientation that the label image needs, 1 if it is as shown."""
    labels: frozenset[int] = frozenset()
    """Indices of all classes in the image."""
    unknown: frozenset[int] = frozenset()
    """Indices in ``labels`` of which all objects are "difficult"."""
    size: tuple[int, int] = (0, 0)
    """Width and height (px) of the image as shown; 0, 0 before it is opened."""
    frame: tuple[int, int] = (0, 0)
    """Width and height (px) in the annotation file; 0 if unknown."""
    in_shares: bool = False
    """Whether boxes and polygons are fractions of width and height instead of pixels."""
    digest: str = ""
    """Of the bytes, if another image has as many; see ``with_digests``."""

    @property
    def known(self) -> frozenset[int]:
        """Indices of the classes that are surely in the image."""
        return self.labels - self.unknown

    @property
    def has_scored(self) -> bool:
        """Whether it shows an object that is not a crowd."""
        return any(not thing.is_crowd for thing in self.objects)


def image_of_objects(path: str, objects: Iterable[Object], **fields: Any) -> LabelledImage:
    """Return an image labelled with the classes of its objects."""
    own = tuple(objects)
    return LabelledImage(path, own, labels=frozenset(thing.label for thing in own), **fields)


def joined(images: Sequence[LabelledImage], warnings: list[str]) -> list[LabelledImage]:
    """Merge the entries of each image, dropping equal objects; ValueError if sizes differ."""
    entries: dict[str, list[LabelledImage]] = defaultdict(list)
    for image in images:
        entries[image.path].append(image)
    doubled = [path for path, own in entries.items() if len(own) > 1]
    if doubled:
        warnings.append(
            f"{counted(len(doubled), 'image')} of {len(entries)} have several entries, for example "
            f"{doubled[0]}: they are merged."
        )
    return [_join(own) if len(own) > 1 else own[0] for own in entries.values()]


def _join(own: Sequence[LabelledImage]) -> LabelledImage:
    frames = sorted({image.frame for image in own if all(image.frame)}) or [(0, 0)]
    if len(frames) > 1:
        raise UserValueError(
            f"{own[0].path}: the {len(own)} entries of this image must give one size, but give "
            f"{' and '.join(map(str, frames))}; correct the annotation file."
        )

    objects: list[Object] = []
    for image in own:
        objects += [thing for thing in image.objects if thing not in objects]
    labels = frozenset().union(*(image.labels for image in own))
    known = frozenset().union(*(image.known for image in own))
    return replace(
        own[0], objects=tuple(objects), labels=labels, unknown=labels - known, frame=frames[0]
    )


Splits = Mapping[str | None, Sequence[LabelledImage]]
"""Images by the name of their split; None without one."""


def all_images(splits: Splits) -> list[LabelledImage]:
    """Return the images of all splits."""
    return [*chain.from_iterable(splits.values())]


def map_images(splits: Splits, change: Callable[[LabelledImage], LabelledImage]) -> Splits:
    """Apply a function to each image of each split."""
    return {split: [*map(change, images)] for split, images in splits.items()}


@dataclass(frozen=True)
class LabelledData:
    """The classes, training images and validation images of a folder.

    ``layout`` and ``split`` describe the layout and the origin of the splits, for people.
    """

    root: Path
    layout: str
    classes: list[str]
    train: list[LabelledImage]
    val: list[LabelledImage]
    split: str
    warnings: list[str] = field(default_factory=list)

    @property
    def images(self) -> list[LabelledImage]:
        """The images of train, then of val."""
        return [*self.train, *self.val]

    @property
    def is_single_label(self) -> bool:
        """Whether each image has exactly one class."""
        return self.train[0].label is not None

    @property
    def objects(self) -> list[Object]:
        """The objects of all images."""
        return [*chain.from_iterable(image.objects for image in self.images)]

    @property
    def has_masks(self) -> bool:
        """Whether each object has a mask; crowds need none."""
        return all(thing.segmentation or thing.is_crowd for thing in self.objects)

    @property
    def num_boxes(self) -> int:
        """How many objects have a box."""
        return sum(thing.box is not None for thing in self.objects)

    def count(self, images: Iterable[LabelledImage]) -> list[int]:
        """Count the images that show each class, more than "difficult" objects of it."""
        counts = Counter(chain.from_iterable(image.known for image in images))
        return [counts[label] for label in range(len(self.classes))]

    def describe(self) -> str:
        """Describe the data in one line, followed by a line for each warning."""
        boxes = f"{self.num_boxes:,} boxes, " if self.num_boxes else ""
        more = ", ..." if len(self.classes) > _MOST_NAMED else ""
        text = (
            f"{self.root}: {self.layout}, {counted(len(self.images), 'image')} "
            f"({len(self.train):,} to train on and {len(self.val):,} to validate with: "
            f"{self.split}), {boxes}{len(self.classes):,} classes "
            f"({', '.join(self.classes[:_MOST_NAMED])}{more})"
        )
        return "\n".join([text, *(f"warning: {each}" for each in self.warnings)])


def by_folder(images: Mapping[str, LabelledImage], *, in_words: bool = False) -> Splits:
    """Group images, given by file name, by the split that their folder names, see ``splits_of``."""
    folders = {name: Path(name).parent.as_posix() for name in images}
    split_by_folder = splits_of(folders.values(), in_words=in_words)
    splits: dict[str | None, list[LabelledImage]] = defaultdict(list)
    for name, image in images.items():
        splits[split_by_folder[folders[name]]].append(image)
    return splits


def choose_splits(
    splits: Splits, *, share: float, seed: int, train_share: float = 1.0
) -> tuple[list[LabelledImage], list[LabelledImage], str]:
    """Return the training images, the validation images, and how they were chosen.

    Two splits of the data are used as they are; 'test' replaces a missing 'val'. Otherwise a
    ``share`` of the images is drawn by ``seed`` for validation: per class if each image has one
    class, else of all. A ``train_share`` of the training images is kept, see ``choose_subset``. No
    draw separates a group of images.
    """
    train, val, how = _divide(splits, share, seed)
    if train_share == 1:
        return train, val, how

    kept: list[int] = []
    for units in _by_label(train):
        order = sorted(units, key=lambda unit: rank(unit[0], seed))
        kept += keep(order, max(1, round(train_share * sum(map(len, units)))))
    how += f"; {100 * train_share:g} % of {len(train):,} are trained on, drawn by seed {seed}"
    return [train[index] for index in sorted(kept)], val, how


def _divide(
    splits: Splits, share: float, seed: int
) -> tuple[list[LabelledImage], list[LabelledImage], str]:
    named = {name: images for name, images in splits.items() if name is not None}
    if TRAIN in named and len(named) > 1:
        validating = VAL if VAL in named else TEST
        train = [*named[TRAIN]]
        val = [*named[validating]]
        used = {image.path for image in (*train, *val)}
        rest = len({image.path for image in all_images(splits)} - used)
        unused = f"; {rest} other images are not used" if rest else ""
        return train, val, f"the data's own {TRAIN} and {validating}{unused}"

    if len(named) == 1 and TRAIN not in named:
        raise UserValueError(
            f"the data must have a split named train, but all are of the split {next(iter(named))};"
            " rename the files or folders that say so."
        )
    # The others are not of train: folders that data.yaml leaves out, for example.
    images = [*named.get(TRAIN, all_images(splits))]
    num_unused = len(all_images(splits)) - len(images)
    rng = np.random.default_rng(seed)
    held_out: set[int] = set()
    units_by_label = _by_label(images)
    for units in units_by_label:
        num_images = sum(map(len, units))
        # The only image of a class is a training image.
        count = min(num_images - 1, max(1, round(share * num_images)))
        order = rng.permutation(len(units)).tolist()
        held_out.update(hold_out([units[number] for number in order], count))
    if not held_out:
        raise UserValueError(
            f"some class needs two images, but none of {len(images)} shares its class with another "
            "than its copies and versions; label more."
        )

    train = [image for index, image in enumerate(images) if index not in held_out]
    val = [image for index, image in enumerate(images) if index in held_out]

    each = "each class of " if images[0].label is not None else ""
    how = f"{share:.0%} of {each}{len(images)} images held out, seed {seed}"
    if (num := sum(map(len, units_by_label))) < len(images):
        how += f"; {len(images) - num} copies and versions stay with their image"
    if num_unused:
        how += f"; {num_unused} other images are not used"
    return train, val, how


def groups_of(images: Sequence[LabelledImage]) -> list[int]:
    """Return the index of the first image of the group of each image."""
    return group_by([(image.digest, version_of(image.path, image.label)) for image in images])


def _by_label(images: Sequence[LabelledImage]) -> list[list[list[int]]]:
    """Sort the units of images by the label of their first image, in the order of these."""
    units_by_label: dict[int | None, list[list[int]]] = defaultdict(list)
    for unit in units_of(groups_of(images)):
        units_by_label[images[unit[0]].label].append(unit)
    return [*units_by_label.values()]
