"""Means with intervals, paired differences, and Holm's correction.

Legend: n seeds, m comparisons. The pre-training seed is the unit of all of them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from scipy.stats import t as student

LEVEL = 0.05
"""Chance of an interval to miss, and of "better" or "worse" to be said of any equal method."""

Verdict = Literal["better", "worse", ""]


@dataclass(frozen=True)
class Estimate:
    """A mean over n seeds, and half of the width of its 95 % interval, None for one seed."""

    mean: float
    half_width: float | None
    n: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends."""
        if self.half_width is None:
            return None
        return self.mean - self.half_width, self.mean + self.half_width


@dataclass(frozen=True)
class Comparison:
    """A method against the reference, over the seeds that both have.

    Args:
        difference: Mean of method - reference, with its 95 % interval.
        p: Of the paired t-test, two-sided; None for one seed.
        adjusted_p: After Holm; None where it was not among the comparisons.
    """

    difference: Estimate
    p: float | None
    adjusted_p: float | None = None

    @property
    def verdict(self) -> Verdict:
        """'better' or 'worse' only if the interval excludes 0 at the level of its step of Holm."""
        if self.adjusted_p is None or self.adjusted_p >= LEVEL:
            return ""
        return "better" if self.difference.mean > 0 else "worse"


def estimate(values: Sequence[float]) -> Estimate:
    """Return mean +- t(0.975, n - 1) s / sqrt(n), s the sample standard deviation.

    Args:
        values: One per seed, at least one.
    """
    n = len(values)
    if n < 2:
        return Estimate(fmean(values), None, n)
    quantile = float(student.ppf(1 - LEVEL / 2, n - 1))
    return Estimate(fmean(values), quantile * stdev(values) / math.sqrt(n), n)


def paired(values: Mapping[int, float], reference: Mapping[int, float]) -> Comparison | None:
    """Compare two methods over their common seeds; None if there is none.

    Args:
        values: Of the method, by seed.
        reference: Of the reference, by seed.
    """
    differences = [values[seed] - reference[seed] for seed in sorted(values.keys() & reference)]
    return Comparison(estimate(differences), _p(differences)) if differences else None


def holm(values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number, by Holm's step-down.

    With p_(1) <= ... <= p_(m): adjusted p_(k) = max over j <= k of min(1, (m - j + 1) p_(j)). It
    is below 0.05 where, for all j <= k, the interval of level 1 - 0.05 / (m - j + 1) excludes 0.

    Args:
        values: m p-values in [0, 1], in any order.

    Returns:
        The adjusted ones in the same order, each at least as large.
    """
    adjusted = [0.0] * len(values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = largest
    return adjusted


def compare_all(
    scores: Mapping[str, Mapping[int, float]], reference: str, competing: Sequence[str]
) -> dict[str, Comparison]:
    """Compare every method with the reference; Holm over those that compete and have two seeds.

    Args:
        scores: By method and seed.
        reference: A key of ``scores``.
        competing: The methods of which "better" may be said.

    Returns:
        By method, without the reference and without those that share no seed with it.
    """
    found = {}
    for name, values in scores.items():
        comparison = paired(values, scores[reference])
        if name != reference and comparison:
            found[name] = comparison
    tested = {k: c.p for k, c in found.items() if k in competing and c.p is not None}
    for name, adjusted in zip(tested, holm(list(tested.values())), strict=True):
        found[name] = Comparison(found[name].difference, found[name].p, adjusted)
    return found


def _p(differences: Sequence[float]) -> float | None:
    n = len(differences)
    if n < 2:
        return None
    deviation = stdev(differences)
    if deviation == 0:
        return float(fmean(differences) == 0)
    statistic = fmean(differences) / (deviation / math.sqrt(n))
    return float(2 * student.sf(abs(statistic), n - 1))
