"""Means and differences over seeds, with 95 % intervals and Holm's correction."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance
from typing import Literal, TypeVar

from scipy import stats

from ..console.wording import ALONE

Key = TypeVar("Key")
LEVEL = 0.05
"""Significance level: intervals have 1 - LEVEL = 95 %."""
_ROUNDING = 1e-4
"""In points: rounding of 32-bit scores is less, and what an image changes is more."""
WELCH = (
    "Differences: Welch's test and 95 % interval over the seeds, which are not paired. better, "
    "worse: p < 0.05 after Holm's correction over the table's methods."
)


PAIRED = (
    "Differences: paired t-test and 95 % interval over the seeds that both rows have. better, "
    "worse: p < 0.05 after Holm's correction over the table."
)


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and the half-width of its 95 % interval, None for one seed."""

    mean: float
    half_width: float | None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Lower and upper end of the interval; None for one seed."""
        width = self.half_width
        return None if width is None else (self.mean - width, self.mean + width)

    def text(self, form: str = ".1f") -> str:
        """Format as ``22.9 ± 1.5``, or as the mean alone; ``form`` is the mean's format."""
        # Rounded and added to 0.0 to avoid "-0.0".
        mean = f"{round(self.mean, 1) + 0.0:{form}}"
        return mean if self.half_width is None else f"{mean} ± {self.half_width:.1f}"


def estimate(values: Sequence[float]) -> Estimate:
    """Return mean ± t(0.975, n - 1) s / sqrt(n) of n seeds; s is the sample standard deviation."""
    n = len(values)
    if n < 2:
        return Estimate(fmean(values), None)
    half_width = float(stats.t.ppf(1 - LEVEL / 2, n - 1)) * math.sqrt(variance(values) / n)
    return Estimate(fmean(values), half_width)


def welch(values: Sequence[float], reference: Sequence[float]) -> tuple[Estimate, float | None]:
    """Compare two means by Welch's test: unequal numbers of seeds and variances, not paired.

    Equal seeds share only initial weights and image order; their scores hardly correlate. Returns
    values - reference with its interval, and the two-sided p; both are None for one seed.
    """
    difference = fmean(values) - fmean(reference)
    if min(len(values), len(reference)) < 2:
        return Estimate(difference, None), None
    if not (variance(values) or variance(reference)):
        return Estimate(difference, 0.0), float(difference == 0)
    with warnings.catch_warnings():  # scipy doubts a variance of exactly 0 on one side
        warnings.simplefilter("ignore", RuntimeWarning)
        found = stats.ttest_ind(values, reference, equal_var=False)
    low, high = found.confidence_interval(1 - LEVEL)
    return Estimate(difference, float(high - low) / 2), float(found.pvalue)


def paired(values: Sequence[float], reference: Sequence[float]) -> tuple[Estimate, float | None]:
    """Compare two means by the t-test of the differences, each of one seed.

    Fine-tunings with one seed have the same images and labels, and so the same luck with them.
    Returns values - reference with its interval, and the two-sided p; both are None for one seed.
    Without a spread of the differences, as scores of few images can have, it is Welch's test.
    """
    differences = [own - other for own, other in zip(values, reference, strict=True)]
    has_spread = max(differences) - min(differences) > _ROUNDING
    found = estimate(differences)
    if len(differences) < 2:
        return found, None
    if not has_spread:
        return welch(values, reference)
    return found, float(stats.ttest_1samp(differences, 0).pvalue)


@dataclass(frozen=True)
class Difference:
    """Mean of a method - mean of the reference."""

    difference: Estimate
    p: float | None  # two-sided; None for one seed
    adjusted_p: float | None = None  # after Holm; None for a method that was not tested

    @property
    def verdict(self) -> Literal["better", "worse", ""]:
        """'better' or 'worse' if p is below 0.05 after Holm's correction, else ''."""
        if self.adjusted_p is None or self.adjusted_p >= LEVEL:
            return ""
        return "better" if self.difference.mean > 0 else "worse"

    @property
    def text(self) -> str:
        """Difference with its interval, or with the words that nothing follows from one seed."""
        found = self.difference.text("+.1f")
        return f"{found} ({ALONE})" if self.difference.half_width is None else found

    @property
    def cells(self) -> tuple[str, str, str]:
        """Difference, adjusted p and verdict as cells of a table."""
        p = self.adjusted_p
        p_text = "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
        return self.text, p_text, self.verdict


def holm(values: Sequence[float]) -> list[float]:
    """Adjust m p-values by Holm's step-down procedure; keeps their order.

    With p_(1) <= ... <= p_(m): adjusted p_(k) = max over j <= k of min(1, (m - j + 1) p_(j)). It is
    below 0.05 if, for all j <= k, the interval of level 1 - 0.05 / (m - j + 1) excludes 0.
    """
    adjusted = [0.0] * len(values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = largest
    return adjusted


def adjusted_by_holm(found: Mapping[Key, Difference]) -> dict[Key, Difference]:
    """Adjust the p of all differences that have one."""
    tested = {key: each.p for key, each in found.items() if each.p is not None}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    return {key: replace(each, adjusted_p=adjusted.get(key)) for key, each in found.items()}


def compare_all(
    scores: Mapping[str, Sequence[float]], reference: str, competing: Sequence[str]
) -> dict[str, Difference]:
    """Compare every method with the reference; only those that compete get a verdict."""
    others = {name: values for name, values in scores.items() if name != reference}
    found = {name: Difference(*welch(own, scores[reference])) for name, own in others.items()}
    return found | adjusted_by_holm({k: c for k, c in found.items() if k in competing})
