"""Files of an experiment: the text of its tables, a CSV line per run, and a picture of mAP."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..console.style import INK, MUTED, PYRAMIDS, RC, titled_figure
from ..console.tables import csv_table
from ..system.outputs import write_whole
from .statistics import estimate

_PANEL_WIDTH_INCHES = 4.2
_ROW_INCHES = 0.4
_MAX_PANEL_COLUMNS = 3
_OFFSET = 0.16
"""How far the dots are above a row's middle and the interval below it, in rows."""
_MIN_SPAN = 5.0
"""Least width of an axis in percentage points, so that noise does not look like an effect."""
_STYLES = ((0, (4, 3)), (0, (1, 2)))
"""Lines are dashed, then dotted."""


@dataclass(frozen=True)
class Panel:
    """One table of the experiment.

    ``dots`` are each seed's mAP in percent by row, and what sets it apart from the others, such
    as 'collapsed'; it is drawn hollow then. ``lines`` are at most two values in percent to compare
    with.
    """

    title: str
    dots: Mapping[str, Sequence[tuple[float, str]]]
    lines: Mapping[str, float] = field(default_factory=dict)


def draw_panels(panels: Sequence[Panel], rows: Sequence[str], highlighted: str) -> Figure:
    """Draw at least one panel beside each other, with the same rows, the first at the top.

    Their axis spans at least 5 points and need not begin at 0: compare places, not lengths.
    """
    num_columns = min(_MAX_PANEL_COLUMNS, len(panels))
    num_rows = ceil(len(panels) / num_columns)
    with matplotlib.rc_context(RC):
        figure = titled_figure(
            max(2, num_columns) * _PANEL_WIDTH_INCHES + 0.07 * max(map(len, rows)),
            num_rows * (_ROW_INCHES * max(len(rows), 2) + 1.0) + 0.5,
            "A dot per seed; below, the mean and its 95 % interval",
        )
        grid = figure.subplots(
            num_rows, num_columns, sharex=True, sharey=True, squeeze=False
        ).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            _draw_panel(axes, panel, rows, highlighted)
            axes.xaxis.set_tick_params(labelbottom=True)
        low, high = grid[0].get_xlim()
        missing = max(0.0, _MIN_SPAN - (high - low)) / 2
        grid[0].set_xlim(low - missing, high + missing)
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
    return figure


def _draw_panel(axes: Axes, panel: Panel, rows: Sequence[str], highlighted: str) -> None:
    for row, name in enumerate(rows):
        colour = PYRAMIDS[1] if name == highlighted else PYRAMIDS[0]
        values = [value for value, _ in panel.dots.get(name, ())]
        for value, mark in panel.dots.get(name, ()):
            axes.scatter(
                value,
                row - _OFFSET,
                s=22,
                facecolors="none" if mark else colour,
                edgecolors=colour,
                alpha=0.7,
                label=mark or None,
            )
        if values:
            mean = estimate(values)
            look: dict[str, Any] = {"fmt": "|", "markersize": 9, "linewidth": 1.4, "capsize": 2.5}
            axes.errorbar(mean.mean, row + _OFFSET, xerr=mean.half_width, color=INK, **look)
    for (name, value), style in zip(panel.lines.items(), _STYLES, strict=False):
        axes.axvline(value, color=MUTED, linewidth=1, linestyle=style, label=name)
    handles, names = axes.get_legend_handles_labels()
    legend = dict(zip(names, handles, strict=True))  # one of all dots with a mark
    if legend:
        axes.legend(
            legend.values(),
            legend,
            loc="lower right",
            bbox_to_anchor=(1, 1),
            borderpad=0,
            ncols=len(legend),
            fontsize="small",
            frameon=False,
        )
    axes.set_title(panel.title)
    axes.set_xlabel("mAP, %")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


CsvRow = Mapping[str, object]
"""A line of a CSV file, by the names of its columns."""


def write_tables(folder: Path, files: Mapping[str, str | Sequence[CsvRow]]) -> list[str]:
    """Write texts and the rows of CSV files, and return their names."""
    for name, content in files.items():
        write_whole(folder / name, content if isinstance(content, str) else csv_text(content))
    return [*files]


def csv_text(rows: Sequence[CsvRow]) -> str:
    """Return rows as the text of a CSV file."""
    return csv_table([*rows[0]], [[*row.values()] for row in rows]) if rows else ""
