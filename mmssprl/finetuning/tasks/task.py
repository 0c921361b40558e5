"""What every task answers.

Legend: K classes, H and W height and width of an image in pixels.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import mmcv
import numpy as np
from mmengine.config import Config
from mmengine.evaluator import BaseMetric
from numpy.typing import NDArray

from ...datasets.labels import LabelledData
from ...datasets.labels.masks import palette

PICTURE_PX = 640
"""Longer side of a drawn picture at most."""


@dataclass(frozen=True)
class Scores:
    """How good predictions are.

    Args:
        total: By name, in percent, the main one first; empty where val has nothing to score.
        heads: Names of ``per_class``'s columns.
        per_class: A row of percentages per class; None where val has nothing to score.
        confusion: Images (K, K) of each class, by rows, that were taken for each class; None where
            an image has not one of each.
    """

    total: dict[str, float]
    heads: list[str]
    per_class: list[list[float | None]]
    confusion: list[list[int]] | None = None


class ValScore(NamedTuple):
    """The main score as a validation logs it: its key, its name for people, what makes per cent."""

    key: str
    name: str
    factor: float = 1.0


class Task(ABC):
    """A task with a user's K classes, and what else it is told of the labels, see ``facts_of``."""

    name: ClassVar[str]
    scope: ClassVar[str]
    """Registry scope of its models: 'mmssprl' (mmpretrain's), 'mmdet' or 'mmseg'."""
    val_score: ValScore
    """The score by which the best epoch is chosen, the first of ``Scores.total``."""

    def __init__(self, classes: Sequence[str], **facts: bool) -> None:
        self.classes = list(classes)
        self.facts = facts

    @classmethod
    def base_config(cls, *, on_gpu: bool) -> str:
        """Return the shipped config that a training begins with, a lighter one on a CPU."""
        return f"configs/_base_/finetune_{cls.name}{'' if on_gpu else '_light'}.py"

    @staticmethod
    def facts_of(data: LabelledData) -> dict[str, bool]:
        """Return the facts of some labels."""
        return {}

    @abstractmethod
    def configure(self, cfg: Config, image_px: int) -> None:
        """Put the classes and the size of the images into a base config.

        ``image_px`` is, to classify, the side of the crop; to detect, the shorter side, the longer
        one being at most 5/3 of it; to segment, the side of the crop in training and the shorter
        side otherwise.
        """

    @abstractmethod
    def read(self, sample: Any) -> Any:
        """Return what is kept of the prediction in a data sample, in numpy."""

    @abstractmethod
    def metrics(self, labels: Path) -> list[dict[str, Any]]:
        """Return configs of the package's metrics; the file ``labels`` holds all labels of val."""

    @abstractmethod
    def score(self, metrics: Sequence[BaseMetric]) -> Scores:
        """Return the scores by ``metrics`` that have processed all images of val."""

    @abstractmethod
    def draw(self, picture: NDArray[np.uint8], sample: Any) -> NDArray[np.uint8]:
        """Draw a prediction on an RGB image (H, W, 3), by the visualizer of the task's package.

        The picture's longer side has at most ``PICTURE_PX``.
        Where the sample has labels, too, they are drawn on its left, or written above.
        """

    @abstractmethod
    def write(self, out: Path, names: Sequence[str], predictions: Sequence[Any]) -> list[str]:
        """Write predictions of named images into a folder; return a line for each thing written."""


def shrunk(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a picture (H, W, 3) whose longer side has at most ``PICTURE_PX``."""
    factor = PICTURE_PX / max(picture.shape[:2])
    return mmcv.imrescale(picture, factor) if factor < 1 else picture


def colours_of(classes: Sequence[str], first: int = 0) -> dict[str, Any]:
    """Return what visualizers of mmdet and mmseg ask for: classes, and VOC's colours of them."""
    colours = palette()[first : first + len(classes)].tolist()
    return {"classes": classes, "palette": [tuple(each) for each in colours]}


def steps_of(cfg: Config) -> Iterator[Any]:
    """Yield the steps of the pipelines of all splits."""
    for split in ("train", "val", "test"):
        yield from cfg[f"{split}_dataloader"].dataset.pipeline


def written_names(names: Sequence[str], suffix: str) -> dict[str, str]:
    """Map the name of each image to that of a file made of it, all different.

    ``suffix`` replaces the images' own; it is added to all where two would have one name.
    """
    short = [Path(name).with_suffix(suffix).as_posix() for name in names]
    is_unique = len(set(short)) == len(names)
    return dict(zip(names, short if is_unique else (name + suffix for name in names), strict=True))
