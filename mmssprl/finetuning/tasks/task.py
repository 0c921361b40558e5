"""What every task answers.

Legend: K classes, H and W height and width of an image in pixels.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from mmengine.config import Config
from PIL import Image

from ...datasets.labels import LabelledData, LabelledImage


@dataclass(frozen=True)
class Scores:
    """How good predictions are.

    Args:
        total: By name, in percent, the main one first.
        heads: Names of ``per_class``'s columns.
        per_class: A row of percentages per class; None where val has nothing to score.
    """

    total: dict[str, float]
    heads: list[str]
    per_class: list[list[float | None]]


class Task(ABC):
    """A task with a user's classes.

    Args:
        classes: Their names, K of them.
    """

    name: ClassVar[str]
    scope: ClassVar[str]
    """Registry scope of its models: 'mmssprl' (mmpretrain's), 'mmdet' or 'mmseg'."""
    batch_size: ClassVar[int]
    """Images that are predicted at once."""

    def __init__(self, classes: Sequence[str]) -> None:
        self.classes = list(classes)

    @staticmethod
    @abstractmethod
    def base_config(*, on_gpu: bool) -> str:
        """Return the shipped config that a training begins with."""

    @staticmethod
    def trained(images: Sequence[LabelledImage]) -> Sequence[LabelledImage]:
        """Return the images of train that a training uses."""
        return images

    @property
    def facts(self) -> dict[str, bool]:
        """What ``make_task`` needs beside the classes."""
        return {}

    @staticmethod
    @abstractmethod
    def facts_of(data: LabelledData) -> dict[str, bool]:
        """Return the facts of some labels."""

    @abstractmethod
    def configure(self, cfg: Config, *, image_px: int, freeze: bool) -> None:
        """Put the classes and the size of the images into a base config.

        Args:
            cfg: Changed in place; its backbone is the one to train.
            image_px: See ``Recipe``.
            freeze: Keep the backbone as it is.
        """

    @abstractmethod
    def read(self, sample: Any) -> Any:
        """Return the prediction in a data sample, in numpy."""

    @abstractmethod
    def score(self, images: Sequence[LabelledImage], predictions: Sequence[Any]) -> Scores:
        """Compare predictions with labels."""

    @abstractmethod
    def draw_truth(self, picture: Image.Image, image: LabelledImage) -> Image.Image:
        """Return the picture (of any size) of an image with its labels on it."""

    @abstractmethod
    def draw(self, picture: Image.Image, prediction: Any) -> Image.Image:
        """Return the picture of an image with a prediction on it."""

    @abstractmethod
    def write(self, out: Path, names: Sequence[str], predictions: Sequence[Any]) -> list[str]:
        """Write predictions of named images into a folder.

        Returns:
            What was written, a line each.
        """

    @abstractmethod
    def found(self, predictions: Sequence[Any]) -> list[int]:
        """Return the number of images in which each class was found."""
