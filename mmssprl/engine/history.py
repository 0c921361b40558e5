"""The curves of a run, as its log has them, and the ranges of healthy runs' curves.

``bands.csv`` is made of 25 healthy runs of small networks and images, hundreds of steps, by
tools/dev/monitoring of version 0.2-wide (commit f395fcb4). A larger run may leave a band without
being sick.
"""

import csv
import functools
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UserFileNotFoundError, UserValueError

Record = Mapping[str, Any]
"""The scalars of a line: 'step', 'lr', 'epochs_done', 'progress', 'relative_...', ..."""
BANDS_FILE = Path(__file__).with_name("bands.csv")


def read_scalars(run: str | Path) -> list[Record]:
    """Read the scalar logs of a run in order of their steps.

    A resumed run repeats the steps after its checkpoint: from the first step of its log on, older
    logs count no more. ``run`` is the work dir, or one of its scalar logs.

    Raises:
        FileNotFoundError: No such folder or file, or no log in the folder.
        ValueError: A line that is not JSON.
    """
    run = Path(run)
    paths = [run] if run.is_file() else sorted(run.glob("*/vis_data/scalars.json"))
    if not paths:
        raise UserFileNotFoundError(
            f"a work dir must hold */vis_data/scalars.json, but {run} does not; pass that of a "
            "training."
        )
    records: list[Record] = []
    for path in paths:
        later = [record for record in _lines(path) if "lr" in record]
        if later:
            records = [record for record in records if record["step"] < later[0]["step"]] + later
    return records


def read_validations(run: str | Path, key: str) -> dict[int, float]:
    """Return a score of the validations in the logs of a work dir by epoch; the latest counts."""
    paths = sorted(Path(run).glob("*/vis_data/scalars.json"))
    lines = [line for path in paths for line in _lines(path) if key in line and "lr" not in line]
    return dict(sorted((line["step"], line[key]) for line in lines))


def _lines(path: Path) -> Iterator[Record]:
    """Yield the lines of one log, without one that is still being written."""
    with path.open(errors="replace") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith("\n"):
                return
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UserValueError(
                    f"every line of a log must be JSON, but line {number} of {path} is not "
                    f"({error}); remove that line."
                ) from error
            if isinstance(record, dict):
                yield record


class Band(NamedTuple):
    """The range of a scalar of the log in healthy runs.

    ``progress`` are shares of the training in (0, 1], rising; the others are one number for each.
    """

    progress: tuple[float, ...]
    lowest: tuple[float, ...]
    median: tuple[float, ...]
    highest: tuple[float, ...]
    runs: tuple[float, ...]

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
    return {name: Band(*zip(*lines, strict=True)) for name, lines in rows.items()}
