"""Files of an experiment: tables as text, a CSV row per run, and a picture of mAP."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..console.style import INK, MUTED, PYRAMIDS, RC, titled_figure
from ..console.tables import csv_table
from ..system.outputs import write_figure, write_whole
from .statistics import estimate

CHANCE = "chance"
"""Name of the dotted line; other lines are dashed."""
_OFFSET = 0.16
"""Distance of the dots above a row's middle, and of the interval below it, in rows."""
_MIN_SPAN = 5.0
"""Smallest width of an axis in percentage points, so that noise does not look like an effect."""


@dataclass(frozen=True)
class Panel:
    """One table: each seed's mAP in percent by row, and at most two reference lines."""

    title: str
    dots: Mapping[str, Sequence[float]]
    lines: Mapping[str, float] = field(default_factory=dict)


def draw_panels(panels: Sequence[Panel], rows: Sequence[str], highlighted: str) -> Figure:
    """Draw panels side by side with the same rows, the first at the top.

    The shared axis spans at least 5 points and need not begin at 0.
    """
    with matplotlib.rc_context(RC):
        width = max(2, len(panels)) * 4.2 + 0.07 * max(map(len, rows))
        title = "A dot per seed; below, the mean and its 95 % interval"
        figure = titled_figure(width, 0.4 * max(len(rows), 2) + 1.5, title)
        grid = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
        for axes, panel in zip(grid, panels, strict=True):
            _draw_panel(axes, panel, rows, highlighted)
        low, high = grid[0].get_xlim()
        missing = max(0.0, _MIN_SPAN - (high - low)) / 2
        grid[0].set_xlim(low - missing, high + missing)
    return figure


def _draw_panel(axes: Axes, panel: Panel, rows: Sequence[str], highlighted: str) -> None:
    for row, name in enumerate(rows):
        if values := panel.dots.get(name):
            colour = PYRAMIDS[1] if name == highlighted else PYRAMIDS[0]
            axes.scatter(values, [row - _OFFSET] * len(values), s=22, color=colour, alpha=0.7)
            mean = estimate(values)
            look: dict[str, Any] = {"fmt": "|", "markersize": 9, "linewidth": 1.4, "capsize": 2.5}
            axes.errorbar(mean.mean, row + _OFFSET, xerr=mean.half_width, color=INK, **look)
    for name, value in panel.lines.items():
        style = ":" if name == CHANCE else "--"
        axes.axvline(value, color=MUTED, linewidth=1, linestyle=style, label=name)
    if panel.lines:
        # Above the axes, beside the title: inside, it would cover a row.
        place: dict[str, Any] = {
            "loc": "lower right",
            "bbox_to_anchor": (1.01, 0.99),
            "borderpad": 0.2,
        }
        axes.legend(ncols=len(panel.lines), fontsize="small", frameon=False, **place)
    axes.set_title(panel.title)
    axes.set_xlabel("mAP, %")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


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
    """Format rows, which have the same columns, as CSV."""
    return csv_table([*rows[0]], [[*row.values()] for row in rows]) if rows else ""
