"""The interface of a task.

Legend: K classes, H and W height and width of an image in pixels.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import mmcv
import numpy as np
from mmengine.config import Config
from mmengine.evaluator import BaseMetric
from numpy.typing import NDArray

from ...datasets.labels import LabelledData

PICTURE_PX = 640
"""Longer side of a drawn picture."""


@dataclass(frozen=True)
class Scores:
    """Scores of predictions, in percent."""

    total: dict[str, float]  # by name, the main one first; empty if val has nothing to score
    heads: list[str]  # columns of ``per_class``
    per_class: list[list[float | None]]  # a row per class; None if val has nothing to score
    confusion: list[list[int]] | None = None  # images by true and predicted class (K, K)


class ValScore(NamedTuple):
    """The main score in the log of a validation: its key, display name, and factor to percent."""

    key: str
    name: str
    factor: float = 1.0


class Task(ABC):
    """A task with a user's K classes and the facts about the labels that it needs."""

    name: ClassVar[str]
    scope: ClassVar[str]
    """Registry scope of its models: 'mmssprl' (mmpretrain's), 'mmdet' or 'mmseg'."""
    val_score: ValScore
    """The score that chooses the best epoch, the first of ``Scores.total``."""
    pictures_per_row: ClassVar[int] = 1
    """On a sheet; labels next to predictions need a row."""
    sheet_title: ClassVar[str] = "left: labels, right: predictions"

    def __init__(self, classes: Sequence[str], **facts: bool) -> None:
        self.classes = list(classes)
        self.facts = facts

    @classmethod
    def base_config(cls, *, on_gpu: bool) -> str:
        """Return the name of the shipped base config, a lighter one on a CPU."""
        return f"configs/_base_/finetune_{cls.name}{'' if on_gpu else '_light'}.py"

    @staticmethod
    def facts_of(data: LabelledData) -> dict[str, bool]:
        """Return facts about labels, as keywords of the constructor."""
        return {}

    @abstractmethod
    def configure(self, cfg: Config, image_px: int) -> None:
        """Set the classes and the size of the images in a base config.

        ``image_px`` is the side of the crop (classify), the shorter side (detect), or the side of
        the crop in training and the shorter side in tests (segment).
        """

    @abstractmethod
    def read(self, sample: Any) -> Any:
        """Return the prediction in a data sample without tensors."""

    @abstractmethod
    def metrics(self, labels: Path) -> list[dict[str, Any]]:
        """Return configs of metrics; the file ``labels`` holds all labels of val."""

    @abstractmethod
    def score(self, metrics: Sequence[BaseMetric]) -> Scores:
        """Return the scores of ``metrics`` that have processed all images of val."""

    @abstractmethod
    def draw(self, picture: NDArray[np.uint8], sample: Any) -> NDArray[np.uint8]:
        """Draw a prediction on an RGB image (H, W, 3), enlarged or reduced.

        The longer side of a picture becomes ``PICTURE_PX``. Labels in the sample are drawn on a
        picture on the left, or written above.
        """

    @abstractmethod
    def write(
        self, out: Path, names: Sequence[str], predictions: Iterable[tuple[str, Any]]
    ) -> list[str]:
        """Write predictions into a folder, each as it comes; return a line per output.

        A prediction comes with its image, one of ``names``.
        """


def resized(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Resize a picture (H, W, 3) to a longer side of ``PICTURE_PX`` pixels."""
    return mmcv.imrescale(picture, PICTURE_PX / max(picture.shape[:2]))


def steps_of(cfg: Config) -> Iterator[Any]:
    """Yield the steps of the pipelines of all splits."""
    for split in ("train", "val", "test"):
        yield from cfg[f"{split}_dataloader"].dataset.pipeline


def written_names(names: Sequence[str], suffix: str) -> dict[str, str]:
    """Map the name of each image to a unique name with another suffix.

    ``suffix`` replaces the images' own suffixes; it is appended to all if names would clash.
    """
    short = [Path(name).with_suffix(suffix).as_posix() for name in names]
    is_unique = len(set(short)) == len(names)
    return dict(zip(names, short if is_unique else (name + suffix for name in names), strict=True))
