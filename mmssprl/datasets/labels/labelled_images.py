"""What a folder of labelled images holds, whatever its layout."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...console.wording import counted

_MOST_NAMED = 8


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
    in_shares: bool = False
    """Whether boxes and polygons are shares of width and height, not pixels."""


def image_of_objects(path: str, objects: Iterable[Object], **fields: Any) -> LabelledImage:
    """Return an image with the classes of its objects; ``fields`` are the other ones."""
    own = tuple(objects)
    return LabelledImage(path, own, labels=frozenset(thing.label for thing in own), **fields)


@dataclass(frozen=True)
class LabelledData:
    """A folder's classes, its images to train on and its images to validate with.

    ``layout`` and ``split`` say in words what was found and how the splits came about, ``warnings``
    what is odd about the data and does not stop a training.
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
        """Return in one line what was found: layout, images, boxes, classes."""
        boxes = [f"{self.num_boxes:,} boxes"] if self.num_boxes else []
        more = ", ..." if len(self.classes) > _MOST_NAMED else ""
        parts = [
            self.layout,
            f"{counted(len(self.train) + len(self.val), 'image')} ({len(self.train):,} to train on "
            f"and {len(self.val):,} to validate with: {self.split})",
            *boxes,
            f"{len(self.classes):,} classes ({', '.join(self.classes[:_MOST_NAMED])}{more})",
        ]
        return f"{self.root}: {', '.join(parts)}"
