"""Intervals of the change of a score, by a paired bootstrap.

Legend: N images, K classes, D draws of a bootstrap.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..console.progress import watch
from ..system.stopping import signals

_DRAWS = 500
_MOST_SCORES = 10_000_000
"""Maximum number of scores of a test set; with more, 500 draws take minutes."""
_NORMAL = 1.96  # 95 % of a normal distribution are within so many deviations


class Scored(NamedTuple):
    """Results on each test image: scores and labels (N, K), or only hits (N,)."""

    values: Tensor
    labels: Tensor | None = None

    def means(self, counts: Tensor) -> Tensor:
        """Return the mAP or share of hits (D,) of draws with each image ``counts`` (D, N) times."""
        if self.labels is None:
            return counts @ self.values / counts.sum(dim=1)

        areas = []
        classes = [*zip(self.values.double().T, self.labels.T, strict=True)]
        for scores, labels in watch(classes, "interval of the mAP"):
            signals.progress()
            areas.append(_average_precision(scores, labels, counts))
        return torch.stack(areas).nanmean(dim=0)


def _average_precision(scores: Tensor, labels: Tensor, counts: Tensor) -> Tensor:
    """Return the average precision (D,) of a class with scores and labels (N,) by draw."""
    order = scores.argsort(descending=True)
    labels = labels[order]
    drawn = counts[:, order]
    positive = drawn * labels.eq(1)
    known = drawn * labels.ge(0)
    precision = positive.cumsum(dim=1) / known.cumsum(dim=1).clamp(min=1)
    return (positive * precision).sum(dim=1) / positive.sum(dim=1)


def half_widths(others: Sequence[Scored], start: Scored) -> list[float | None]:
    """Return half a 95 % interval of the difference of each to the start, by a paired bootstrap.

    None if the images or labels differ, because one has become unreadable or was corrected, or
    above 10 million scores.
    """
    if not others or start.values.numel() > _MOST_SCORES:
        return [None] * len(others)

    num = len(start.values)
    draws = np.random.default_rng(0).multinomial(num, np.full(num, 1 / num), _DRAWS)
    counts = torch.from_numpy(draws).double()  # (D, N)
    of_start = start.means(counts)
    widths = []
    for other in others:
        width = None
        if _has_same_images(other, start):
            differences = other.means(counts) - of_start
            width = _NORMAL * differences[differences.isfinite()].std().item()
        widths.append(width)
    return widths


def _has_same_images(one: Scored, other: Scored) -> bool:
    if one.labels is not None and other.labels is not None:
        return torch.equal(one.labels, other.labels)
    return one.values.shape == other.values.shape
