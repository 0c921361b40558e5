"""Which learning rates are tried, and which one is taken.

Scores are mAP in [0, 1] of the tuning's seeds, by factor of the config's learning rate.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, variance

FACTORS = (1 / 3, 1.0, 3.0)
SEEDS = (1000, 1001, 1002)
"""Outside those of the final runs, which count from 0."""


def choose(scores: Mapping[float, Sequence[float]]) -> float | None:
    """Return the factor that is taken, None before every factor has all seeds.

    It is the best one, but 1 where the lead of the best over 1 is below its standard error.
    """
    if not all(len(scores.get(factor, ())) == len(SEEDS) for factor in FACTORS):
        return None
    best = max(FACTORS, key=lambda factor: fmean(scores[factor]))
    lead = fmean(scores[best]) - fmean(scores[1.0])
    error = math.sqrt((variance(scores[best]) + variance(scores[1.0])) / len(SEEDS))
    return best if lead and lead >= error else 1.0
