"""Means and differences over seeds, with their intervals; which differ, after Holm's correction.

The seed is the unit.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance
from typing import Literal, TypeVar

from scipy import stats

Key = TypeVar("Key")
LEVEL = 0.05
"""Chance of an interval to miss."""
WELCH = (
    "Differences: Welch's test and 95 % interval over the seeds, which are not paired. better, "
    "worse: the interval excludes 0 also at the level of its step of Holm's correction over the "
    "table's methods (p < 0.05)."
)
"""What the columns of differences mean."""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, and half of the width of its 95 % interval, None for one seed."""

    mean: float
    half_width: float | None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends."""
        if self.half_width is None:
            return None
        return self.mean - self.half_width, self.mean + self.half_width

    def text(self, form: str = ".1f") -> str:
        """Return such as ``22.9 ± 1.5``, or the mean alone; ``form`` is that of the mean."""
        # Rounded first and added to 0.0: what prints as zero has no minus sign.
        mean = f"{round(self.mean, 1) + 0.0:{form}}"
        return mean if self.half_width is None else f"{mean} ± {self.half_width:.1f}"


def estimate(values: Sequence[float]) -> Estimate:
    """Return mean +- t(0.975, n - 1) s / sqrt(n) of n seeds, s the sample standard deviation."""
    n = len(values)
    if n < 2:
        return Estimate(fmean(values), None)
    error = math.sqrt(variance(values) / n)
    return Estimate(fmean(values), float(stats.t.ppf(1 - LEVEL / 2, n - 1)) * error)


def welch(values: Sequence[float], reference: Sequence[float]) -> tuple[Estimate, float | None]:
    """Compare two means whose seeds need not be equal in number or variance, by Welch's test.

    Equal seeds are not paired: they share first weights and order of the images alone, and their
    scores hardly correlate. Returns the difference values - reference with its interval, and the
    two-sided p; with one seed on either side there is neither.
    """
    difference = fmean(values) - fmean(reference)
    if min(len(values), len(reference)) < 2:
        return Estimate(difference, None), None
    if not (variance(values) or variance(reference)):
        return Estimate(difference, 0.0), float(difference == 0)
    with warnings.catch_warnings():  # of equal seeds on one side, whose variance is exact here
        warnings.simplefilter("ignore", RuntimeWarning)
        found = stats.ttest_ind(values, reference, equal_var=False)
    low, high = found.confidence_interval(1 - LEVEL)
    return Estimate(difference, float(high - low) / 2), float(found.pvalue)


@dataclass(frozen=True)
class Difference:
    """A method against the reference: mean of the method - mean of the reference.

    ``p`` is that of Welch's test, two-sided, None for one seed; ``adjusted_p`` that after Holm,
    None where it was not among the comparisons.
    """

    difference: Estimate
    p: float | None
    adjusted_p: float | None = None

    @property
    def verdict(self) -> Literal["better", "worse", ""]:
        """'better' or 'worse' only if the interval excludes 0 at the level of its step of Holm."""
        if self.adjusted_p is None or self.adjusted_p >= LEVEL:
            return ""
        return "better" if self.difference.mean > 0 else "worse"

    @property
    def cells(self) -> tuple[str, str, str]:
        """Difference, adjusted p and verdict for a table."""
        p = self.adjusted_p
        p_text = "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
        return self.difference.text("+.1f"), p_text, self.verdict


def holm(values: Sequence[float]) -> list[float]:
    """Adjust m p-values for their number, by Holm's step-down; the order stays.

    With p_(1) <= ... <= p_(m): adjusted p_(k) = max over j <= k of min(1, (m - j + 1) p_(j)). It is
    below 0.05 where, for all j <= k, the interval of level 1 - 0.05 / (m - j + 1) excludes 0.
    """
    adjusted = [0.0] * len(values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = largest
    return adjusted


def adjusted_by_holm(found: Mapping[Key, Difference]) -> dict[Key, Difference]:
    """Adjust the p of all differences that have one for their number."""
    tested = {key: each.p for key, each in found.items() if each.p is not None}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    return {key: replace(each, adjusted_p=adjusted.get(key)) for key, each in found.items()}


def compare_all(
    scores: Mapping[str, Sequence[float]], reference: str, competing: Sequence[str]
) -> dict[str, Difference]:
    """Compare every method with the reference; Holm over those that compete and have two seeds.

    ``scores`` are those of the seeds by method; of a method that does not compete "better" is never
    said.
    """
    found = {
        name: Difference(*welch(values, scores[reference]))
        for name, values in scores.items()
        if name != reference
    }
    return found | adjusted_by_holm({k: c for k, c in found.items() if k in competing})
