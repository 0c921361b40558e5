"""The curves of a run, as its log has them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import UserFileNotFoundError, UserValueError

Record = Mapping[str, Any]
"""The scalars of a line: 'step', 'lr', 'epochs_done', 'progress', 'relative_...', ..."""


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
