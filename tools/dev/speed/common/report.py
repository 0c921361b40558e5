"""Rows as a table for terminal and Markdown."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from mmssprl.console.tables import markdown_table
from mmssprl.system.outputs import write_figure, write_whole

from .gates import Row

_HEADS = ("id", "what", "value", "quartiles", "gate", "result")


def summary(rows: Sequence[Row]) -> str:
    """Say in one line how many gates are met and which are not, loudly."""
    gates = [row for row in rows if row.passed is not None]
    missed = [row.id for row in gates if not row.passed]
    if not gates:
        return "No gate was measured."
    if missed:
        return f"!!! {len(missed)} of {len(gates)} gates MISSED: {', '.join(missed)} !!!"
    return f"All {len(gates)} gates are met."


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table: the gates first, then what only informs."""
    return markdown_table(_HEADS, [_cells(row) for row in _sorted(rows)], num_left=2)


def markdown(
    rows: Sequence[Row], *, title: str, machine: Mapping[str, str], notes: Sequence[str] = ()
) -> str:
    """Return the report as Markdown: summary, table, notes of the rows, machine."""
    parts = [f"# {title}", f"**{summary(rows)}**", *notes, table(rows)]
    remarks = [f"- {row.id}: {row.note}" for row in _sorted(rows) if row.note]
    if remarks:
        parts += ["## Notes", "\n".join(remarks)]
    facts = markdown_table(("what", "value"), list(machine.items()), num_left=2)
    return "\n\n".join([*parts, "## Machine", facts]) + "\n"


def write(
    rows: Sequence[Row],
    out: str | Path,
    name: str,
    *,
    title: str,
    machine: Mapping[str, str],
    notes: Sequence[str] = (),
    figure: Figure | None = None,
) -> list[Path]:
    """Write ``name.md`` and, with a figure, ``name.png`` into a folder.

    The notes are paragraphs under the summary, the machine is what the numbers were measured on.
    Returns the files.
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.md"]
    write_whole(files[0], markdown(rows, title=title, machine=machine, notes=notes))
    if figure is not None:
        files.append(folder / f"{name}.png")
        write_figure(files[-1], figure)
    return files


def _sorted(rows: Sequence[Row]) -> list[Row]:
    """Put gates first, C2 before C10; what only informs stays in its order."""

    def key(row: Row) -> tuple[bool, list[tuple[int, str]]]:
        if row.passed is None:
            return True, []
        parts = re.findall(r"\d+|\D+", row.id)
        return False, [(int(part), "") if part.isdecimal() else (0, part) for part in parts]

    return sorted(rows, key=key)


def _cells(row: Row) -> list[str]:
    judged = row.judged
    quartiles = " to ".join(_number(value) for value in row.quartiles or ())
    sign = ">=" if judged.better == "higher" else "<="
    bound = "" if judged.gate is None else f"{sign} {_number(judged.gate)}"
    result = {None: "info", True: "met", False: "MISSED"}[row.passed]
    value = f"{_number(row.value)} {judged.unit}".strip()
    return [row.id, judged.what, value, quartiles, bound, result]


def _number(value: float) -> str:
    """Three digits that count, and all digits of whole numbers."""
    if not math.isfinite(value):
        return str(value)
    if value == round(value) and abs(value) < 1e9:
        return f"{round(value):,}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
