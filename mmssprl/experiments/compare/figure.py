"""The comparison as dots: every seed of every method, one panel per budget."""

from collections.abc import Mapping, Sequence
from statistics import fmean

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...console.style import INK, MUTED, PYRAMIDS, RC, titled_figure
from ...pretraining.methods import RANDOM
from ..statistics import estimate
from .plan import BUDGETS, Budget
from .results import Result

_PANEL_WIDTH_INCHES = 4.2
_ROW_INCHES = 0.36
_OFFSET = 0.16
"""Of the interval below the dots, in rows."""


def draw_comparison(
    tables: Mapping[Budget, Mapping[str, Sequence[Result]]],
    reference: str,
    titles: Mapping[str, str],
) -> Figure:
    """Draw a dot per seed and, below the dots, the mean with its 95 % interval.

    Dashed: random weights. Dotted: a constant score, if it is near. The axes need not begin at 0:
    compare places, not lengths. A hollow dot is a collapsed run.

    Args:
        tables: Runs by method, for each budget; at least one run.
        reference: Drawn in a colour of its own.
        titles: By method, in their order.
    """
    panels = {budget: runs for budget, runs in tables.items() if runs}
    keys = [k for k in titles if k != RANDOM.key and any(k in runs for runs in panels.values())]
    with matplotlib.rc_context(RC):
        figure = titled_figure(
            _PANEL_WIDTH_INCHES * len(panels) + 2.6,
            _ROW_INCHES * max(len(keys), 2) + 1.6,
            "A dot per pre-training seed; below, the mean and its 95 % interval",
        )
        grid = figure.subplots(1, len(panels), sharey=True, sharex=True, squeeze=False)
        for axes, (budget, runs) in zip(grid.flat, panels.items(), strict=True):
            _draw_panel(axes, runs, keys, reference)
            axes.set_yticks(range(len(keys)), [titles[key] for key in keys])
            axes.set_title(BUDGETS[budget])
    return figure


def _draw_panel(
    axes: Axes, runs: Mapping[str, Sequence[Result]], keys: Sequence[str], reference: str
) -> None:
    for row, key in enumerate(keys):
        own = runs.get(key, ())
        if not own:
            continue
        colour = PYRAMIDS[1] if key == reference else PYRAMIDS[0]
        for result in own:
            axes.scatter(
                100 * result.mAP,
                row - _OFFSET,
                s=22,
                facecolors="none" if result.collapsed else colour,
                edgecolors=colour,
                alpha=0.7,
                label="collapsed" if result.collapsed else None,
            )
        found = estimate([100 * result.mAP for result in own])
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
    everything = [result for own in runs.values() for result in own]
    for value, style, name in (
        (_mean(runs.get(RANDOM.key, ())), (0, (4, 3)), "random weights"),
        (100 * fmean(result.chance_mAP for result in everything), (0, (1, 2)), "chance"),
    ):
        if value is not None:
            axes.axvline(value, color=MUTED, linewidth=1, linestyle=style, label=name)
    handles, names = axes.get_legend_handles_labels()
    shown = dict(zip(names, handles, strict=True))  # one of all collapsed dots
    axes.legend(
        [*shown.values()],
        [*shown],
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=len(shown),
        fontsize="small",  # all three have room beside the panel's title
        columnspacing=1.0,
        handlelength=1.5,
        frameon=False,
        borderpad=0,
    )
    axes.set_xlabel("mAP, %")
    axes.set_ylim(len(keys) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


def _mean(results: Sequence[Result]) -> float | None:
    return 100 * fmean(result.mAP for result in results) if results else None
