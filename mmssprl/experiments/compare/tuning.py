"""Which learning rates are tried, and which one is taken.

Scores are mAP in [0, 1] of the tuning's seeds, by factor of the config's learning rate.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, variance

FACTORS = (1 / 9, 1 / 3, 1.0, 3.0, 9.0)
SEEDS = (1000, 1001, 1002)
"""Outside those of the final runs, which count from 0."""

Scores = Mapping[float, Sequence[float]]


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


def choose(scores: Scores) -> float | None:
    """Return the factor that is taken, None before every factor to try has all seeds.

    It is the best one, but 1 where the lead of the best over 1 is below its standard error.
    """
    tried = factors_to_try(scores)
    if not _are_complete(scores, tried):
        return None
    best = _best(scores, tried)
    lead = fmean(scores[best]) - fmean(scores[1.0])
    error = math.sqrt((variance(scores[best]) + variance(scores[1.0])) / len(SEEDS))
    return 1.0 if lead < error else best


def _are_complete(scores: Scores, factors: Sequence[float]) -> bool:
    return all(len(scores.get(factor, ())) == len(SEEDS) for factor in factors)


def _best(scores: Scores, factors: Sequence[float]) -> float:
    """Return the factor with the highest mean; of equal ones the nearest to 1."""
    return max(factors, key=lambda factor: (fmean(scores[factor]), -abs(math.log(factor))))
