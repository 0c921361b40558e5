"""Panels of curves, on the ranges of healthy runs: what all pictures of a log are made of."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..console.style import HEALTHY, INK, MUTED, RC, SCALES, titled_figure
from ..monitoring import Band

Points = tuple[Sequence[float], Sequence[float]]
"""The x and y of a curve."""
_PANEL_INCHES = (3.3, 2.4)


class CurvePanel(NamedTuple):
    """Curves by their label, '' for none, and what lies behind them."""

    title: str
    lines: Mapping[str, Points]
    colours: Sequence[str] = SCALES
    band: Band | None = None  # range of healthy runs
    length: float = 1.0  # of the training, on the x axis, for the band
    factor: float = 1.0  # of the band's values
    level: float | None = None  # height of a dashed line, and the text above it
    level_text: str = ""
    bottom: float | None = None  # ends of the y axis; None takes those of the curves
    top: float | None = None


def draw_panels(
    rows: Sequence[Sequence[CurvePanel | None]], x_label: str, *, title: str = ""
) -> Figure:
    """Draw rows of panels that share their x axis; None leaves a place free."""
    num_columns = max(map(len, rows))
    width, height = num_columns * _PANEL_INCHES[0], len(rows) * _PANEL_INCHES[1]
    with matplotlib.rc_context(RC):
        figure = titled_figure(width, height + (0.5 if title else 0.2), title)
        grid = figure.subplots(len(rows), num_columns, sharex=True, squeeze=False)
        for places, row in zip(grid, rows, strict=True):
            for axes, panel in zip_longest(places, row):
                if panel is None:
                    axes.set_visible(False)
                    continue
                _draw(axes, panel)
                axes.tick_params(labelbottom=True)
                axes.set_xlabel(x_label)
    return figure


def _draw(axes: Axes, panel: CurvePanel) -> None:
    if panel.band is not None:
        progress = [panel.length * share for share in panel.band.progress]
        lowest, highest = (
            [panel.factor * value for value in values]
            for values in (panel.band.lowest, panel.band.highest)
        )
        axes.fill_between(
            progress, lowest, highest, color=HEALTHY, linewidth=0, label="healthy runs"
        )
    for (label, points), colour in zip(panel.lines.items(), panel.colours, strict=False):
        axes.plot(*points, color=colour, linewidth=1.6, label=label)
    if panel.level is not None:
        axes.axhline(panel.level, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            panel.level_text,
            (0.98, panel.level),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
            va="bottom",
            color=MUTED,
            fontsize=8,
            zorder=4,  # before the curve, which may run along its line
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
        )
    axes.set_title(panel.title, fontsize=9)
    axes.margins(y=0.18)
    axes.set_ylim(panel.bottom, panel.top)
    if len(panel.lines) > 1 or panel.band is not None:
        axes.legend(fontsize=7, framealpha=0.8, edgecolor="none")
