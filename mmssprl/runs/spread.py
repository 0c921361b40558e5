"""What the seeds say together."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation over ``n`` seeds, None for one seed."""

    mean: float
    std: float | None
    n: int

    def text(self, form: str = ".1f") -> str:
        """Return such as ``22.9 ± 1.5``, or the mean alone; ``form`` is that of the mean."""
        # Rounded first and added to 0.0: what prints as zero has no minus sign.
        mean = f"{round(self.mean, 1) + 0.0:{form}}"
        return mean if self.std is None else f"{mean} ± {self.std:.1f}"


def spread_of(values: Sequence[float]) -> Spread:
    """Summarise the values of one or more seeds."""
    return Spread(fmean(values), stdev(values) if len(values) > 1 else None, len(values))
