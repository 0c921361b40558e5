"""What the log of a run says, in words."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..console.tables import markdown_table
from ..errors import UserValueError
from .bands import band_of
from .history import Record, read_scalars
from .troubles import LEAST_STEPS, find_troubles

HEALTHY, TOO_SHORT = "healthy", "too_short"
_LEAST_EPOCHS = 3.0
"""As long as the sign of a trouble has to stay at most."""
_LEAST_LINES = 4
"""One more than a sign has to show in."""


class Diagnosis(NamedTuple):
    """What a run looks like.

    Attributes:
        verdict: ``HEALTHY``, ``TOO_SHORT`` or the key of the first trouble.
        length: How much there is of the log, in words.
        words: What to tell a person about it.
        compared: The last line beside healthy runs: name, place, value and their range.
    """

    verdict: str
    length: str
    words: list[str]
    compared: list[tuple[str, str, str, str]]

    @property
    def lines(self) -> list[str]:
        """All of it, the comparison as a table."""
        heads = ("now", "", "value", "healthy runs")
        tables = [markdown_table(heads, self.compared, num_left=2)] if self.compared else []
        return [self.length, *self.words, *tables]


def diagnose(run: str | Path, records: Sequence[Record] | None = None) -> Diagnosis:
    """Tell what is wrong with a run, or that nothing is, and how its curves compare.

    Args:
        run: Work dir of the run, or its ``scalars.json``.
        records: Lines of its log; None reads them.

    Raises:
        FileNotFoundError, ValueError: As ``read_scalars``; or a log without what is needed.
    """
    records = read_scalars(run) if records is None else records
    if not records or any("progress" not in record for record in records):
        raise UserValueError(
            f"a log must hold the lines of a pre-training with their 'progress', but that of {run} "
            "does not; it is of something else, or of mmssprl before 0.2."
        )
    last, now = records[-1], find_troubles(records)
    if now:
        verdict, words = now[0].key, [f"trouble: {trouble.line}" for trouble in now]
    elif (
        last["epochs_done"] < _LEAST_EPOCHS
        or last["step"] < LEAST_STEPS
        or len(records) < _LEAST_LINES
    ):
        verdict = TOO_SHORT
        words = [f"too short to tell: wait for {_LEAST_EPOCHS:.0f} epochs, {LEAST_STEPS} steps"]
    else:
        verdict, words = HEALTHY, ["healthy: no sign of trouble"]
    done = f"{last['epochs_done']:.1f} epochs, {last['progress']:.0%} of the training"
    return Diagnosis(verdict, f"{len(records)} lines of the log: {done}", words, _compared(last))


def _compared(last: Record) -> list[tuple[str, str, str, str]]:
    rows = []
    for name, value in last.items():
        band = band_of(name)
        if band is not None:
            value, low, high = (round(x, 2) for x in (value, *band.at(last["progress"])))
            place = "lower" if value < low else "higher" if value > high else "as usual"
            place = "no number" if math.isnan(value) else place
            rows.append((name, place, f"{value:.2f}", f"{low:.2f} to {high:.2f}"))
    return rows
