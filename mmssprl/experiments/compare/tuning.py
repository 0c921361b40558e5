"""Which learning rates are tried, and which one is taken.

Scores are mAP in [0, 1] of the tuning's seeds, by factor of the config's learning rate.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

FACTORS = (1 / 9, 1 / 3, 1.0, 3.0, 9.0)
SEEDS = (1000, 1001, 1002)
"""Outside those of the final runs, which count from 0."""

Scores = Mapping[float, Sequence[float]]


@dataclass(frozen=True)
class Choice:
    """What a tuning has found: the ``best`` factor, and the one that is ``taken``.

    ``lead`` is the mean of the best - mean of factor 1, >= 0. Where it is below its standard error,
    1 is taken.
    """

    best: float
    taken: float
    lead: float
    standard_error: float


def factors_to_try(scores: Scores) -> tuple[float, ...]:
    """Return 1/3, 1 and 3, and 1/9 or 9 once the best of the complete ones is on the border."""
    low, high = 1, len(FACTORS) - 1
    while _are_complete(scores, FACTORS[low:high]):
        best = FACTORS.index(_best(scores, FACTORS[low:high]))
        if best == low > 0:
            low -= 1
        elif best == high - 1 < len(FACTORS) - 1:
            high += 1
        else:
            break
    return FACTORS[low:high]


def choose(scores: Scores) -> Choice | None:
    """Return what is chosen, None before every factor to try has all seeds."""
    tried = factors_to_try(scores)
    if not _are_complete(scores, tried):
        return None
    best = _best(scores, tried)
    lead = fmean(scores[best]) - fmean(scores[1.0])
    error = math.sqrt((variance(scores[best]) + variance(scores[1.0])) / len(SEEDS))
    return Choice(best, 1.0 if lead < error else best, lead, error)


def _are_complete(scores: Scores, factors: Sequence[float]) -> bool:
    return all(len(scores.get(factor, ())) == len(SEEDS) for factor in factors)


def _best(scores: Scores, factors: Sequence[float]) -> float:
    """Return the factor with the highest mean; of equal ones the nearest to 1."""
    return max(factors, key=lambda factor: (fmean(scores[factor]), -abs(math.log(factor))))
