"""The picture of an experiment: a dot per seed and the mean with its interval, panel by panel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..console.style import INK, MUTED, PYRAMIDS, RC, titled_figure
from .statistics import estimate

LEGEND = "a dot per seed; below, the mean and its 95 % interval"
"""What is drawn, for the title."""

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

    ``dots`` are each seed's value in percent by row, and what sets it apart from the others, such
    as 'collapsed'; it is drawn hollow then. ``lines`` are at most two values in percent to compare
    with.
    """

    title: str
    metric: str
    dots: Mapping[str, Sequence[tuple[float, str]]]
    lines: Mapping[str, float] = field(default_factory=dict)


def draw_panels(
    panels: Sequence[Panel], rows: Sequence[str], title: str, *, highlighted: str = ""
) -> Figure:
    """Draw at least one panel beside each other, with the same rows, the first at the top.

    An axis spans the values and intervals of its panel, or of all panels if their metric is one,
    and at least 5 points. It need not begin at 0: compare places, not lengths.
    """
    num_columns = min(_MAX_PANEL_COLUMNS, len(panels))
    num_rows = ceil(len(panels) / num_columns)
    with matplotlib.rc_context(RC):
        figure = titled_figure(
            max(2, num_columns) * _PANEL_WIDTH_INCHES + 0.07 * max(map(len, rows)),
            num_rows * (_ROW_INCHES * max(len(rows), 2) + 1.0) + 0.5,
            title,
        )
        grid = figure.subplots(num_rows, num_columns, sharey=True, squeeze=False)
        spans = [
            _draw_panel(axes, panel, rows, highlighted)
            for axes, panel in zip(grid.flat, panels, strict=False)
        ]
        if len({panel.metric for panel in panels}) == 1:
            spans = [[value for span in spans for value in span]] * len(panels)
        for axes, span in zip(grid.flat, spans, strict=False):
            axes.set_xlim(*_limits(span))
        for axes in list(grid.flat)[len(panels) :]:
            axes.set_visible(False)
    return figure


def _draw_panel(axes: Axes, panel: Panel, rows: Sequence[str], highlighted: str) -> list[float]:
    """Draw one panel but for the limits of its axis, and return what they have to span."""
    shown = [*panel.lines.values()]
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
            found = estimate(values)
            axes.errorbar(
                found.mean,
                row + _OFFSET,
                xerr=found.half_width,
                fmt="|",
                markersize=9,
                color=INK,
                linewidth=1.4,
                capsize=2.5,
            )
            shown += [*values, *(found.interval or ())]
    for (name, value), style in zip(panel.lines.items(), _STYLES, strict=False):
        axes.axvline(value, color=MUTED, linewidth=1, linestyle=style, label=name)
    handles, names = axes.get_legend_handles_labels()
    if names:
        legend = dict(zip(names, handles, strict=True))  # one of all dots with a mark
        axes.legend(
            [*legend.values()],
            [*legend],
            loc="lower right",
            bbox_to_anchor=(1, 1),
            borderpad=0,
            ncols=len(legend),
            fontsize="small",
            frameon=False,
        )
    axes.set_title(panel.title)
    axes.set_xlabel(f"{panel.metric}, %")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    return shown


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """Return an axis around the values, in percent, or all of it where nothing is shown."""
    if not values:
        return 0.0, 100.0
    low, high = min(values), max(values)
    half = max(1.2 * (high - low), _MIN_SPAN) / 2
    return (low + high) / 2 - half, (low + high) / 2 + half
