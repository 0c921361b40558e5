"""Read the scalar logs of a run."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import UserFileNotFoundError, UserValueError
from ..system.record_file import RECORD_FILE, read_record

Record = Mapping[str, Any]
"""Scalars of one line: 'step', 'lr', 'epochs_done', 'progress', 'relative_...', ..."""


def read_scalars(run: str | Path) -> list[Record]:
    """Read the training lines in a work dir; a resumed run's lines replace the same steps.

    Raises:
        FileNotFoundError: There is no log.
        ValueError: A line is not JSON.
    """
    paths = _logs(run)
    if not paths:
        raise UserFileNotFoundError(
            f"{run} has no */vis_data/scalars.json; give the work dir of a training that had "
            "LocalVisBackend in visualizer.vis_backends, and no visualizer.save_dir."
        )
    records: list[Record] = []
    for path in paths:
        later = [record for record in _lines(path) if "lr" in record]
        if later:
            records = [record for record in records if record["step"] < later[0]["step"]] + later
    return records


def read_validations(run: str | Path, key: str) -> dict[int, float]:
    """Return a validation score by epoch; later logs win."""
    scores: dict[int, float] = {}
    for path in _logs(run):
        lines = [line for line in _lines(path) if key in line and "lr" not in line]
        scores |= {line["step"]: line[key] for line in lines}
    return dict(sorted(scores.items()))


def _logs(run: str | Path) -> list[Path]:
    """Return the logs of a run's starts, the oldest first.

    Their folders are named by the local time, which may go back: the clock of another machine, or
    the time zone of a container. ``run.json`` has the order. Other logs are of a run that was
    overwritten, unless it has not recorded all starts: then they come first.
    """
    starts = read_record(Path(run) / RECORD_FILE).get("starts", [])
    names = [start.get("log") for start in starts]
    places = {name: place for place, name in enumerate(names)}
    found = [*Path(run).glob("*/vis_data/scalars.json")]
    if starts and not starts[0].get("resumed_from") and None not in places:
        found = [path for path in found if path.parts[-3] in places]
    return sorted(found, key=lambda path: (places.get(path.parts[-3], -1), path))


def _lines(path: Path) -> Iterator[Record]:
    """Yield the lines of one log, except one that is still being written."""
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
