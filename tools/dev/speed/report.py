"""Rows as a table for terminal and Markdown, with the machine and a picture of the loaders."""

import math
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import matplotlib
import torch
from matplotlib.figure import Figure

from mmssprl.console.style import DPI, MUTED, PYRAMIDS, RC
from mmssprl.console.tables import markdown_table
from mmssprl.system.environment import describe_environment, source_commit
from mmssprl.system.outputs import write_figure, write_whole

from .gates import GATES, Row

_HEADS = ("id", "what", "value", "quartiles", "gate", "result")
_LOADERS = {
    "torchvision": "Released recipe's loader\n(torchvision and PIL)",
    "mmpretrain": "mmpretrain's\nMultiView pipeline",
    "ours": "mmssprl, crops only\n(colours change on the device)",
    "ours_cpu": "mmssprl,\nall work on the CPU",
}
"""Side -> label in the picture; the row of a side is ``SIDE_34_ms``."""


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
    figure: Figure | None = None,
) -> list[Path]:
    """Write ``name.md`` and, with a figure, ``name.png`` into a folder, and return the files."""
    parts = [f"# {title}", f"**{summary(rows)}**", *notes, table(rows)]
    remarks = [f"- {row.id}: {row.note}" for row in _sorted(rows) if row.note]
    if remarks:
        parts += ["## Notes", "\n".join(remarks)]
    facts = markdown_table(("what", "value"), list(machine.items()), num_left=2)
    out.mkdir(parents=True, exist_ok=True)
    files = [out / f"{name}.md"]
    write_whole(files[0], "\n\n".join([*parts, "## Machine", facts]) + "\n")
    if figure is not None:
        files.append(out / f"{name}.png")
        write_figure(files[-1], figure)
    return files


def draw_loaders(rows: Sequence[Row], caption: str) -> Figure | None:
    """Draw CPU time per image of the loaders for 34 crops; None if one of their rows is missing."""
    found = {row.id: row.value for row in rows}
    wanted = [*(f"{side}_34_ms" for side in _LOADERS), "decode_ms"]
    if not {*wanted} <= found.keys():
        return None
    *per_image, decoding = (found[row_id] for row_id in wanted)
    colors = [PYRAMIDS[0] if side.startswith("ours") else MUTED for side in _LOADERS]
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(8, 3.2), dpi=DPI, layout="constrained")
        axes = figure.subplots()
        bars = axes.barh(list(_LOADERS.values()), per_image, color=colors)
        axes.bar_label(bars, [f"{value:.3g}" for value in per_image], padding=4)
        axes.axvline(decoding, color=PYRAMIDS[1], label=f"decoding alone: {decoding:.3g}")
        axes.margins(x=0.1)
        axes.invert_yaxis()
        axes.legend(loc="lower right")
        axes.set_title("CPU time of loading one image as 34 crops, ms (shorter is better)")
        figure.supxlabel(caption, x=0.01, ha="left", fontsize=8, color=MUTED)
    return figure


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
