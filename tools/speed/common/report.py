"""Rows as text for the terminal, Markdown, CSV and a picture."""

import csv
import io
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

import matplotlib
from matplotlib.figure import Figure
from measure import Row

from mmssprl.outputs import write_whole
from mmssprl.visualization.style import DPI, INK, MUTED, PYRAMIDS, RC

_COLUMNS = ("id", "what", "value", "unit", "gate", "stretch", "better", "spread_low")
_CSV_COLUMNS = (*_COLUMNS, "spread_high", "passed", "note")
_HEADS = ("id", "what", "value", "quartiles", "gate", "stretch", "result")
_WHAT_COLUMNS = 58
_MISSED = "#b2182b"
_MAX_MARGIN = 10.0
"""Where bars end: margins beyond it would squeeze those near the gate, which are of interest."""


_TICKS = (0.2, 0.5, 1, 2, 5, _MAX_MARGIN)


def summary(rows: Sequence[Row]) -> str:
    """Say in one line how many gates are met and which are not, loudly."""
    gates = [row for row in rows if row.passed is not None]
    missed = [row.id for row in gates if not row.passed]
    reached = sum(bool(row.reached_stretch) for row in gates)
    if not gates:
        return "No gate was measured."
    if missed:
        return f"!!! {len(missed)} of {len(gates)} gates MISSED: {', '.join(missed)} !!!"
    with_stretch = sum(row.stretch is not None for row in gates)
    return f"All {len(gates)} gates are met; {reached} of {with_stretch} stretches are reached."


def terminal_table(rows: Sequence[Row]) -> str:
    """Return aligned text: the gates first, then what only informs."""
    cells = [list(_HEADS), *(_cells(row) for row in _sorted(rows))]
    lines = []
    for line in cells:
        what, *more = textwrap.wrap(line[1], _WHAT_COLUMNS) or [""]
        lines.append([line[0], what, *line[2:]])
        lines += [["", rest, *[""] * (len(_HEADS) - 2)] for rest in more]
    widths = [max(len(line[i]) for line in lines) for i in range(len(_HEADS))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i in (0, 1, 6) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def markdown(
    rows: Sequence[Row], *, title: str, machine: Mapping[str, str], notes: Sequence[str] = ()
) -> str:
    """Return the report as Markdown: summary, tables, notes of the rows, machine."""
    parts = [f"# {title}", f"**{summary(rows)}**", *notes]
    parts.append(_markdown_table([list(_HEADS), *(_cells(row) for row in _sorted(rows))]))
    remarks = [f"- {row.id}: {row.note}" for row in _sorted(rows) if row.note]
    if remarks:
        parts += ["## Notes", "\n".join(remarks)]
    parts += ["## Machine", _markdown_table([["what", "value"], *map(list, machine.items())])]
    return "\n\n".join(parts) + "\n"


def csv_text(rows: Sequence[Row], *, machine: Mapping[str, str]) -> str:
    """Return the rows as CSV under ``# name: value`` lines of the machine, every digit kept."""
    text = io.StringIO()
    for name, value in machine.items():
        text.write(f"# {name}: {value}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV_COLUMNS)
    for row in rows:
        low, high = row.spread or ("", "")
        numbers = ["" if n is None else repr(n) for n in (row.gate, row.stretch)]
        writer.writerow(
            (row.id, row.what, repr(row.value), row.unit, *numbers, row.better)
            + (low, high, "" if row.passed is None else row.passed, row.note)
        )
    return text.getvalue()


def read_csv(path: str | Path) -> list[Row]:
    """Read what ``write`` wrote into its CSV file."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    rows = []
    for line in csv.DictReader(line for line in lines if not line.startswith("# ")):
        spread = (
            (float(line["spread_low"]), float(line["spread_high"])) if line["spread_low"] else None
        )
        rows.append(
            Row(
                line["id"],
                line["what"],
                float(line["value"]),
                line["unit"],
                gate=float(line["gate"]) if line["gate"] else None,
                stretch=float(line["stretch"]) if line["stretch"] else None,
                better=cast(Literal["higher", "lower"], line["better"]),
                spread=spread,
                note=line["note"],
            )
        )
    return rows


def margin(row: Row) -> float:
    """How many times better than its gate a row is, in [0, 10]; 1 is the gate itself.

    Raises:
        ValueError: A row without a gate.
    """
    if row.gate is None:
        raise ValueError(f"{row.id}: a margin needs a gate, but the row has none.")
    good, bad = (row.value, row.gate) if row.better == "higher" else (row.gate, row.value)
    if good == bad:
        return 1.0
    if math.isnan(good) or math.isnan(bad) or good <= 0:
        return 0.0
    return min(good / bad, _MAX_MARGIN) if bad > 0 else _MAX_MARGIN


def draw(rows: Sequence[Row], *, title: str) -> Figure:
    """Draw each gate as a bar of its margin, on a logarithmic axis; a tick is the stretch.

    Raises:
        ValueError: No row has a gate.
    """
    gates = [row for row in _sorted(rows) if row.passed is not None]
    if not gates:
        raise ValueError("a picture needs rows with gates, but none has one.")
    margins = [margin(row) for row in gates]
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(9, 1.2 + 0.34 * len(gates)), dpi=DPI, layout="constrained")
        axes = figure.subplots()
        for y, (row, value) in enumerate(zip(gates, margins, strict=True)):
            # Bars start at the gate: to the right is better, whatever the row counts.
            axes.barh(
                y, value - 1, left=1, height=0.6, color=PYRAMIDS[0] if row.passed else _MISSED
            )
            axes.plot(1, y, "|", color=INK, markersize=12)
            if row.stretch is not None:
                goal = margin(replace(row, value=row.stretch))
                axes.plot(goal, y, "|", color=PYRAMIDS[1], markersize=14, markeredgewidth=2)
            text = f"{_number(row.value)} {row.unit}".strip() + ("" if row.passed else ", MISSED")
            axes.annotate(
                f"{text} (gate {_bound(row, row.gate)})",
                (1.01, y),
                xycoords=("axes fraction", "data"),
                va="center",
                color=MUTED if row.passed else _MISSED,
            )
        axes.set_xscale("log")
        axes.set_xticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
        axes.minorticks_off()
        axes.set_xlim(0.8 * min([0.5, *(m for m in margins if m > 0)]), 1.1 * _MAX_MARGIN)
        axes.set_ylim(len(gates) - 0.4, -0.6)
        names = [f"{textwrap.shorten(row.what, 46, placeholder=' ...')}  {row.id}" for row in gates]
        axes.set_yticks(range(len(gates)), names)
        axes.grid(visible=False, axis="y")
        ends = f"bars end at {_MAX_MARGIN:g}"
        axes.set_xlabel(f"times better than the gate (1: just met; orange: stretch; {ends})")
        axes.set_title(title)
    return figure


def write(
    rows: Sequence[Row],
    out: str | Path,
    name: str,
    *,
    title: str,
    machine: Mapping[str, str],
    notes: Sequence[str] = (),
) -> list[Path]:
    """Write ``name.md``, ``name.csv`` and, if there is a gate, ``name.png`` into a folder.

    All are made before the first is written, and each replaces its predecessor as a whole.

    Args:
        rows: Rows with different ids.
        out: Folder, made if it is not there.
        name: Of the files, without suffix.
        title: First line of the report.
        machine: From ``measure.machine``.
        notes: Paragraphs under the summary.

    Returns:
        The files.

    Raises:
        ValueError: No rows, or two of one id.
    """
    ids = [row.id for row in rows]
    twice = sorted({row_id for row_id in ids if ids.count(row_id) > 1})
    if not rows or twice:
        raise ValueError(
            f"rows must be at least one and of different ids, but got {len(rows)} rows, "
            f"twice: {twice}; give each its own id."
        )
    texts = {
        ".md": markdown(rows, title=title, machine=machine, notes=notes),
        ".csv": csv_text(rows, machine=machine),
    }
    picture = io.BytesIO()
    if any(row.passed is not None for row in rows):
        draw(rows, title=title).savefig(picture, format="png")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for suffix, text in texts.items():
        written.append(folder / f"{name}{suffix}")
        write_whole(written[-1], text)
    if picture.tell():
        written.append(folder / f"{name}.png")
        part = folder / f"{name}.png.part"
        part.write_bytes(picture.getvalue())
        part.replace(written[-1])
    return written


def _sorted(rows: Sequence[Row]) -> list[Row]:
    """Put gates first, C2 before C10; what only informs stays in its order."""

    def key(row: Row) -> tuple[bool, list[tuple[int, str]]]:
        if row.gate is None:
            return True, []
        parts = re.findall(r"\d+|\D+", row.id)
        return False, [(int(part), "") if part.isdecimal() else (0, part) for part in parts]

    return sorted(rows, key=key)


def _cells(row: Row) -> list[str]:
    quartiles = f"{_number(row.spread[0])} to {_number(row.spread[1])}" if row.spread else ""
    result = {None: "info", True: "met", False: "MISSED"}[row.passed]
    return [
        row.id,
        row.what,
        f"{_number(row.value)} {row.unit}".strip(),
        quartiles,
        _bound(row, row.gate),
        _bound(row, row.stretch),
        "met, stretch" if row.reached_stretch else result,
    ]


def _bound(row: Row, bound: float | None) -> str:
    if bound is None:
        return ""
    return f"{'>=' if row.better == 'higher' else '<='} {_number(bound)}"


def _number(value: float) -> str:
    """Three digits that count, and all digits of whole numbers."""
    if math.isnan(value) or math.isinf(value):
        return str(value)
    if value == round(value) and abs(value) < 1e9:
        return f"{round(value):,}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _markdown_table(lines: Sequence[Sequence[str]]) -> str:
    head, *body = [[cell.replace("|", r"\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *body])
