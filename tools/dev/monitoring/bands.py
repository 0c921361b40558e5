"""Make the bands that the package ships, and the logs that its tests diagnose.

    python -m tools.dev.monitoring.bands OUT

OUT is the folder of ``runs``. Each healthy run's curves are read off at twenty shares of the
training; the band is their lowest, median and highest.
"""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

from mmssprl.console.arguments import Parser
from mmssprl.console.tables import csv_table
from mmssprl.monitoring.history import BANDS_FILE, HEADS, Record, read_scalars
from mmssprl.system.outputs import write_whole

from .runs import CASES, HEALTHY

LOGS_FILE = Path(__file__).parents[3] / "tests" / "monitoring" / "logs.json"
_SHARES = [step / 20 for step in range(1, 21)]
_BANDED = ("relative_", "embedding_spread", "effective_rank", "prototypes_in_use_s")
_KEPT = (
    *("step", "epochs_done", "progress", "lr", "time", "data_time", "frozen", "alignment"),
    *(*_BANDED, "code_perplexity_s", "prediction_perplexity_s"),
)


def bands_of(runs: Sequence[Sequence[Record]]) -> list[list[object]]:
    """Return the rows of the table of bands of healthy runs."""
    names = {n for records in runs for r in records for n in r if n.startswith(_BANDED)}
    rows: list[list[object]] = []
    for name in sorted(names):
        curves = [
            [(r["progress"], r[name]) for r in records if name in r]
            for records in runs
            if any(name in r for r in records)
        ]
        for share in _SHARES:
            values = [_at(curve, share) for curve in curves]
            found = [f"{pick(values):.4g}" for pick in (min, median, max)]
            rows.append([name, share, *found, len(curves)])
    return rows


def _at(curve: Sequence[tuple[float, float]], share: float) -> float:
    """Interpolate between the lines of a log; before the first it is the first."""
    for (before, low), (after, high) in pairwise(curve):
        if before <= share <= after:
            return low + (high - low) * (share - before) / (after - before)
    return curve[0][1] if share < curve[0][0] else curve[-1][1]


def compact(records: Sequence[Record]) -> dict[str, list[float | None]]:
    """Return a log by scalar, with three digits."""

    def rounded(value: float | None) -> float | None:
        return None if value is None else float(f"{value:.3g}")

    names = [name for name in records[-1] if name.startswith(_KEPT)]
    return {n: [rounded(record.get(n)) for record in records] for n in names}


if __name__ == "__main__":
    parser = Parser(description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of images and runs")
    folder = parser.parse_args().out / "runs"
    runs = [(case, read_scalars(folder / case.name)) for case in CASES]
    healthy = [records for case, records in runs if case.label == HEALTHY]
    write_whole(BANDS_FILE, csv_table(HEADS, bands_of(healthy)))
    logs = [
        {"name": case.name, "label": case.label, "scalars": compact(records)}
        for case, records in runs
        if case.label != HEALTHY or case.seed == 0  # the tests need no more
    ]
    lines = ",\n".join(json.dumps(log, separators=(",", ":")) for log in logs)
    write_whole(LOGS_FILE, f"[\n{lines}\n]\n")
    print(f"{BANDS_FILE}: {len(healthy)} healthy runs\n{LOGS_FILE}: {len(logs)} logs")
