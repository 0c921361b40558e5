"""Choose among learning rates that are factors of the config's."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, variance

FACTORS = (1 / 3, 1.0, 3.0)
SEEDS = (1000, 1001, 1002)
"""Not among those of the final runs, which count from 0."""


def choose(scores: Mapping[float, Sequence[float]]) -> float | None:
    """Return the best factor; None before every factor has all seeds.

    It is 1 if the lead of the best over 1 is below its standard error. ``scores`` are mAP in [0, 1]
    over the seeds, by factor.
    """
    if not all(len(scores.get(factor, ())) == len(SEEDS) for factor in FACTORS):
        return None
    best = max(FACTORS, key=lambda factor: fmean(scores[factor]))
    lead = fmean(scores[best]) - fmean(scores[1.0])
    error = math.sqrt((variance(scores[best]) + variance(scores[1.0])) / len(SEEDS))
    return best if lead and lead >= error else 1.0
