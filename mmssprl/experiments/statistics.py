"""Means and differences over seeds, with their intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from scipy.stats import t as student

LEVEL = 0.05
"""Chance of an interval to miss."""


@dataclass(frozen=True)
class Estimate:
    """A mean over n seeds, and half of the width of its 95 % interval, None for one seed.

    Of a difference, n are the seeds of that side which has fewer.
    """

    mean: float
    half_width: float | None
    n: int

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
    """Return mean +- t(0.975, n - 1) s / sqrt(n), s the sample standard deviation.

    Args:
        values: One per seed, at least one.
    """
    n = len(values)
    if n < 2:
        return Estimate(fmean(values), None, n)
    return Estimate(fmean(values), _quantile(n - 1) * math.sqrt(variance(values) / n), n)


def welch(values: Sequence[float], reference: Sequence[float]) -> tuple[Estimate, float | None]:
    """Compare two means whose seeds need not be equal in number or variance, by Welch's test.

    Equal seeds are not paired: they share first weights and order of the images alone, and their
    scores hardly correlate.

    Args:
        values: One per seed, at least one.
        reference: As ``values``.

    Returns:
        The difference values - reference with its interval, and the two-sided p; with one seed on
        either side there is neither.
    """
    difference = fmean(values) - fmean(reference)
    n = min(len(values), len(reference))
    if n < 2:
        return Estimate(difference, None, n), None
    squares = [variance(side) / len(side) for side in (values, reference)]
    if not any(squares):
        return Estimate(difference, 0.0, n), float(difference == 0)
    error = math.sqrt(sum(squares))
    parts = zip(squares, (values, reference), strict=True)
    freedom = sum(squares) ** 2 / sum(each**2 / (len(side) - 1) for each, side in parts)
    p = float(2 * student.sf(abs(difference) / error, freedom))
    return Estimate(difference, _quantile(freedom) * error, n), p


def _quantile(freedom: float) -> float:
    return float(student.ppf(1 - LEVEL / 2, freedom))
