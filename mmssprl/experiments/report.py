"""Files of an experiment: tables as text, a CSV row per run, and a picture of mAP."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..console.tables import csv_table
from ..drawing.style import INK, MUTED, PYRAMIDS, own_style, titled_figure
from ..system.outputs import write_figure, write_whole
from .statistics import estimate

CHANCE = "chance"
"""Name of the dotted line; other lines are dashed."""
_OFFSET = 0.16
"""Distance of the dots above a row's middle, and of the interval below it, in rows."""


class Panel(NamedTuple):
    """One table: each seed's mAP in percent by row, and at most two reference lines."""

    title: str
    dots: Mapping[str, Sequence[float]]
    lines: Mapping[str, float]


def draw_panels(panels: Sequence[Panel], rows: Sequence[str], highlighted: str) -> Figure:
    """Draw panels side by side with the same rows, the first at the top.

    The shared axis spans at least 5 points and need not begin at 0.
    """
    plain, marked = PYRAMIDS
    with own_style():
        width = max(2, len(panels)) * 4.2 + 0.07 * max(map(len, rows))
        title = "A dot per seed; below, the mean and its 95 % interval"
        if highlighted in rows and len(rows) > 1:
            title += "; orange: the reference"

        figure = titled_figure(width, 0.4 * max(len(rows), 2) + 1.5, title)
        grid = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
        for axes, panel in zip(grid, panels, strict=True):
            for row, name in enumerate(rows):
                if values := panel.dots.get(name):
                    _draw_row(axes, row, values, marked if name == highlighted else plain)
            for name, value in panel.lines.items():
                style = ":" if name == CHANCE else "--"
                axes.axvline(value, color=MUTED, linewidth=1, linestyle=style, label=name)
            # Above the axes, beside the title: inside, it would cover a row.
            above = {"loc": "lower right", "bbox_to_anchor": (1.01, 0.99), "borderpad": 0.2}
            axes.legend(ncols=2, fontsize="small", frameon=False, **above)
            axes.set(title=panel.title, xlabel="mAP, %", ylim=(len(rows) - 0.5, -0.5))
            axes.set_yticks(range(len(rows)), rows)
            axes.grid(visible=False, axis="y")
        low, high = grid[0].get_xlim()
        missing = max(0.0, 5.0 - (high - low)) / 2  # points; noise does not look like an effect
        grid[0].set_xlim(low - missing, high + missing)
    return figure


def _draw_row(axes: Axes, row: int, values: Sequence[float], colour: str) -> None:
    mean = estimate(values)
    axes.scatter(values, [row - _OFFSET] * len(values), s=22, color=colour, alpha=0.7)
    look: dict[str, Any] = {"fmt": "|", "markersize": 9, "linewidth": 1.4, "capsize": 2.5}
    axes.errorbar(mean.mean, row + _OFFSET, xerr=mean.half_width, color=INK, **look)


CsvRow = Mapping[str, object]
"""A row of a CSV file by column."""
Files = Mapping[str, str | Sequence[CsvRow] | Figure]
"""Texts, rows of CSV files and pictures by file name."""


def write_files(folder: Path, files: Files) -> None:
    """Write texts, CSV rows and pictures into a folder."""
    for name, content in files.items():
        if isinstance(content, Figure):
            write_figure(folder / name, content)
        else:
            write_whole(folder / name, content if isinstance(content, str) else csv_text(content))


def csv_text(rows: Sequence[CsvRow]) -> str:
    """Format rows as CSV, with the columns of all of them."""
    heads = dict.fromkeys(chain(*rows))
    table = [[row.get(head, "") for head in heads] for row in rows]
    return csv_table([*heads], table) if rows else ""
