"""The scalars that a training has logged, line by line."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UserFileNotFoundError, UserValueError

Record = Mapping[str, Any]
"""The scalars of a line: 'step', 'lr', 'epochs_done', 'progress', 'relative_...', ..."""


_MOST_LINES = 2000
"""Of a log that are kept, up to some 2.5 MB of text."""


class Log(NamedTuple):
    """What a run has logged.

    Attributes:
        records: Its lines with their ``step``, in order: all, or of more than 2,000 every second,
            fourth, ... one, and the last.
        num_lines: How many there are.
    """

    records: list[Record]
    num_lines: int


def read_log(run: str | Path, watch: Callable[[Iterable[Record]], Iterable[Record]] = iter) -> Log:
    """Read the scalar logs of a run in little memory, however long they are.

    Args:
        run: As in ``each_scalar``, whose errors are raised.
        watch: Sees each line, also those that are not kept, and hands it on.
    """
    kept: list[Record] = []
    distance, number = 1, -1
    record: Record = {}
    for number, record in enumerate(watch(each_scalar(run))):
        if number % distance == 0:
            kept.append(record)
        if len(kept) > _MOST_LINES:
            kept = kept[::2]
            distance *= 2
    if number % distance:
        kept.append(record)
    return Log(kept, number + 1)


def read_scalars(run: str | Path) -> list[dict[str, Any]]:
    """Read all lines, see ``each_scalar``."""
    return list(each_scalar(run))


def each_scalar(run: str | Path) -> Iterator[dict[str, Any]]:
    """Read the scalar logs of a run, line by line, in order of their steps.

    A resumed run repeats the steps after its checkpoint: from the first step of its log on, older
    logs count no more. The last line of a run that is still writing may be cut off and is left out.

    Args:
        run: Work dir of the run, or one of its scalar logs.

    Yields:
        One dict per logged step of training, with the key ``step``.

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
    ends = []
    end = math.inf
    for path in reversed(paths):
        ends.append(end)
        first = next(_trained(path), None)
        end = end if first is None else min(end, first["step"])
    for path, end in zip(paths, reversed(ends), strict=True):
        yield from (record for record in _trained(path) if record["step"] < end)


def _trained(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of one log that are of training steps."""
    with path.open() as file:
        for number, line in enumerate(file, start=1):
            if line.endswith("\n") and "lr" in (record := _parsed(line, number, path)):
                yield record


def _parsed(line: str, number: int, path: Path) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise UserValueError(
            f"every line of a log must be JSON, but line {number} of {path} is not "
            f"({error}); remove that line."
        ) from error
    return record if isinstance(record, dict) else {}
