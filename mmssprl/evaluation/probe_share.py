"""How often a pre-training is probed, and by how many images, so that it takes little time."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from ..datasets.subset import choose_subset
from .probe_data import LabelledSplit

MAX_SHARE = 0.02
"""Of a training's time with its probes that all probes together may take."""
PLANNED_SHARE = 0.015
"""That they are planned to take: forecasts err, and later features may take longer to fit."""
MOST_IMAGES = 5000
"""Of each split, if nobody says how many."""
LEAST_IMAGES = 250
"""Of each split. With random features of Corel5K other 250 + 250 images move the linear mAP of 12 %
by 0.8 points and that of the neighbours by 1.3 (standard deviation); of fewer chance decides."""
LEAST_POSITIVES = 1
"""Of a class in each split, where it has any: a class without has no average precision."""
_BETWEEN = 4
"""Probes between the first and the last one for which images are given up: to keep the best weights
there must be some to choose from."""


@dataclass(frozen=True)
class ProbePace:
    """What a probe takes.

    Attributes:
        fixed_s: Of the straight line through the times of the least and the most images.
        image_s: Seconds of an image more.
        num_labelled: All images that there are labels of.
        sizes: Images of each split that a probe can take.
        least: Of each split that it must take, see ``least_images``.
        num_first: Probes before the training: of its own weights and of others.
    """

    fixed_s: float
    image_s: float
    num_labelled: int
    sizes: tuple[int, ...]
    least: int
    num_first: int = 1

    def num_images(self, most: int) -> int:
        """Return the images of a probe that takes at most so many of each split."""
        return sum(min(size, most) for size in self.sizes)

    def seconds(self, most: int) -> float:
        """Return the time of a probe that takes at most so many images of each split."""
        return self.fixed_s + self.image_s * self.num_images(most)


def choose_images(pace: ProbePace, epoch_s: float, epochs: int) -> int:
    """Return the most images of each split with which all probes take ``PLANNED_SHARE``.

    There are those before the training, the last one, and some in between if the least images leave
    the time for them. ``pace.least`` images are taken in any case.

    Args:
        pace: Of a probe.
        epoch_s: Of one epoch of the training, > 0.
        epochs: Of the training.
    """
    time_s = planned_s(epoch_s, epochs)
    fitting = int(time_s / pace.seconds(pace.least))
    num_probes = pace.num_first + max(1, min(fitting - pace.num_first, epochs, 1 + _BETWEEN))
    more = range(pace.least + 1, max(pace.sizes) + 1)
    return pace.least + bisect_right(more, time_s / num_probes, key=pace.seconds)


def choose_interval(probe_s: float, epoch_s: float, epochs: int, spent_s: float) -> int:
    """Return the least epochs between two probes with which all take ``PLANNED_SHARE``.

    The last epoch is probed in any case, also where that takes more.

    Args:
        probe_s: Of one probe.
        epoch_s: Of one epoch of the training, > 0.
        epochs: Of the training.
        spent_s: Of the probes before the training.
    """
    left_s = planned_s(epoch_s, epochs) - spent_s
    if epochs * probe_s <= left_s:
        return 1
    num_probes = max(1, int(left_s / probe_s))
    return -(-epochs // num_probes)


def planned_s(epoch_s: float, epochs: int) -> float:
    """Return the seconds that the probes are to take beside the epochs of a training."""
    return PLANNED_SHARE / (1 - PLANNED_SHARE) * epoch_s * epochs


def share_of(probes_s: float, epoch_s: float, epochs: int) -> float:
    """Return the share of the time that probes take beside the epochs of a training."""
    return probes_s / (probes_s + epoch_s * epochs)


def least_images(splits: Sequence[LabelledSplit]) -> int:
    """Return the images of each split below which a score means nothing.

    They are ``LEAST_IMAGES``, or as many more as each class needs for ``LEAST_POSITIVES``.
    """
    numbers = range(LEAST_IMAGES, max(len(split.paths) for split in splits))
    is_enough = [lambda most, split=split: _has_all_classes(split, most) for split in splits]
    return max(numbers.start + bisect_left(numbers, True, key=each) for each in is_enough)


def part_of(split: LabelledSplit, most: int) -> LabelledSplit:
    """Return a fixed random part of a split; a smaller one lies within each larger one."""
    num = len(split.paths)
    if num <= most:
        return split
    indices = choose_subset(range(num), most / num)
    return LabelledSplit(split.name, [split.paths[i] for i in indices], split.labels[indices])


def _has_all_classes(split: LabelledSplit, most: int) -> bool:
    of_all, of_part = ((s.labels == 1).sum(dim=0) for s in (split, part_of(split, most)))
    return bool(((of_part >= LEAST_POSITIVES) | (of_all < LEAST_POSITIVES)).all())
