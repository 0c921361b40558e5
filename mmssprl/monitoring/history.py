"""The scalars that a training has logged, line by line."""

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
    logs count no more. The last line of a run that is still writing may be cut off and is left out.

    Args:
        run: Work dir of the run, or one of its scalar logs.

    Raises:
        FileNotFoundError: No such folder or file, or no log in the folder.
        ValueError: A line that is not JSON.
    """
    run = Path(run)
    if not run.exists():
        raise UserFileNotFoundError(
            f"a run must be its work dir, or its scalars.json, but there is no {run}."
        )
    paths = [run] if run.is_file() else sorted(run.glob("*/vis_data/scalars.json"))
    if not paths:
        raise UserFileNotFoundError(
            f"a work dir must hold */vis_data/scalars.json, but {run} does not; "
            "pass the folder that training was given as --work-dir."
        )
    records: list[Record] = []
    for path in paths:
        later = list(_trained(path))
        if later:
            records = [record for record in records if record["step"] < later[0]["step"]] + later
    return records


def _trained(path: Path) -> Iterator[Record]:
    """Yield the lines of one log that are of training steps."""
    with path.open() as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith("\n"):
                return
            try:
                record = json.loads(line)
            except ValueError as error:
                raise UserValueError(
                    f"every line of a log must be JSON, but line {number} of {path} is not "
                    f"({error}); remove that line."
                ) from error
            if isinstance(record, dict) and "lr" in record:
                yield record
