"""Rows as a table for terminal and Markdown, with the machine."""

import math
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import torch

from mmssprl.console.tables import markdown_table
from mmssprl.system.environment import describe_environment, source_commit
from mmssprl.system.outputs import write_whole

from .gates import GATES, Row

_HEADS = ("id", "what", "value", "quartiles", "gate", "result")


def machine() -> dict[str, str]:
    """Describe what the numbers were measured on; no names of hosts, users or folders."""
    here = describe_environment("cpu")
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": source_commit(),
        "cpu": f"{here['processor']}, {torch.backends.cpu.get_cpu_capability()}",
        "cores": str(here["cores"]),
        "load before": f"{os.getloadavg()[0]:.1f}",
        "python": here["python"],
        "packages": ", ".join(f"{name} {version}" for name, version in here["packages"].items()),
    }


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


def write(
    rows: Sequence[Row],
    out: Path,
    name: str,
    *,
    title: str,
    machine: Mapping[str, str],
    notes: Sequence[str] = (),
) -> Path:
    """Write ``name.md`` into a folder, and return the file."""
    parts = [f"# {title}", f"**{summary(rows)}**", *notes, table(rows)]
    remarks = [f"- {row.id}: {row.note}" for row in _sorted(rows) if row.note]
    if remarks:
        parts += ["## Notes", "\n".join(remarks)]
    facts = markdown_table(("what", "value"), list(machine.items()), num_left=2)
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{name}.md"
    write_whole(file, "\n\n".join([*parts, "## Machine", facts]) + "\n")
    return file


def _sorted(rows: Sequence[Row]) -> list[Row]:
    """Put gates first, in their own order; what only informs stays in its order."""
    order = [*GATES]
    return sorted(rows, key=lambda row: len(order) if row.passed is None else order.index(row.id))


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
