"""Where the curves of healthy runs have been, over the share of the training that is done.

``bands.csv`` is made by ``python -m tools.dev.monitoring.bands`` from the healthy runs of
``tools/dev/monitoring/runs.py``: small networks and images, hundreds of steps. A larger run may
leave a band without being sick.
"""

import csv
import functools
from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

BANDS_FILE = Path(__file__).with_name("bands.csv")
HEADS = ("name", "progress", "lowest", "median", "highest", "runs")


class Band(NamedTuple):
    """The range of a scalar of the log in ``runs`` healthy runs.

    ``progress`` are shares of the training in (0, 1], rising; the others are one number for each.
    """

    progress: tuple[float, ...]
    lowest: tuple[float, ...]
    median: tuple[float, ...]
    highest: tuple[float, ...]
    runs: int

    def at(self, progress: float) -> tuple[float, float]:
        """Return lowest and highest, those of the nearest share before ``progress``."""
        index = max(0, bisect_right(self.progress, progress + 1e-9) - 1)
        return self.lowest[index], self.highest[index]


def band_of(name: str) -> Band | None:
    """Return the band of a scalar of the log, None if there is none."""
    return _bands().get(name)


@functools.cache
def _bands() -> Mapping[str, Band]:
    rows: dict[str, list[list[float]]] = {}
    with BANDS_FILE.open(newline="") as file:
        for name, *numbers in list(csv.reader(file))[1:]:
            rows.setdefault(name, []).append([float(number) for number in numbers])
    bands = {}
    for name, lines in rows.items():
        progress, lowest, median, highest, runs = zip(*lines, strict=True)
        bands[name] = Band(progress, lowest, median, highest, int(runs[0]))
    return bands
