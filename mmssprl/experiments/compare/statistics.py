"""Which methods differ from the reference: Welch's test, and Holm's correction.

The pre-training seed is the unit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..statistics import LEVEL, Estimate, welch

Verdict = Literal["better", "worse", ""]


@dataclass(frozen=True)
class Comparison:
    """A method against the reference.

    Args:
        difference: Mean of the method - mean of the reference, with its 95 % interval.
        p: Of Welch's test, two-sided; None for one seed.
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
    scores: Mapping[str, Sequence[float]], reference: str, competing: Sequence[str]
) -> dict[str, Comparison]:
    """Compare every method with the reference; Holm over those that compete and have two seeds.

    Args:
        scores: By method, one per seed.
        reference: A key of ``scores``.
        competing: The methods of which "better" may be said.

    Returns:
        By method, without the reference.
    """
    found = {
        name: Comparison(*welch(values, scores[reference]))
        for name, values in scores.items()
        if name != reference
    }
    tested = {k: c.p for k, c in found.items() if k in competing and c.p is not None}
    for name, adjusted in zip(tested, holm(list(tested.values())), strict=True):
        found[name] = replace(found[name], adjusted_p=adjusted)
    return found
