"""The benchmark as dots: every seed of every backbone, one panel per protocol."""

from collections.abc import Sequence
from math import ceil

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...console.style import INK, MUTED, PYRAMIDS, RC, titled_figure
from .paper_numbers import PAPER
from .results import METRICS, Result, Size, aggregate, order_protocols, order_weights

_PANEL_WIDTH_INCHES = 2.7
_ROW_INCHES = 0.42
_MAX_PANEL_COLUMNS = 4
_MEAN_HALF_HEIGHT = 0.2
_MIN_SPAN = 5.0
"""Least width of an axis in percentage points, so that noise does not look like an effect."""

_MAIN_METRICS = {"detection": {"AP": ("box", PYRAMIDS[0]), "mask_AP": ("mask", PYRAMIDS[1])}}
"""Metric -> its name and colour, where a protocol has more than one that matters."""

_SUBTITLES = {
    "paper": "dashed: the paper's SS-PRL, pre-trained on COCO",
    "scenes": "not comparable with the paper's numbers",
    "coco128": "noise at this size, 100 training images",
}


def draw_benchmark(results: Sequence[Result], size: Size) -> Figure:
    """Draw the main metric of each protocol: a dot per seed and a line at the mean.

    Rows are weights in the order of the tables. Detection shows box and mask AP. Each axis spans
    its values and at least 5 points, within 0 to 100 %, and need not begin at 0: compare places,
    not lengths. A backbone without a done run is marked failed or skipped.

    Args:
        results: At least one, at most one per weights, protocol and seed.
        size: Of the data; only ``paper`` shows the paper's SS-PRL as dashed lines.
    """
    names = order_weights(results)
    protocols = order_protocols(results)
    num_columns = min(_MAX_PANEL_COLUMNS, len(protocols))
    num_rows = ceil(len(protocols) / num_columns)
    # Names stand at the first panel of each row and the title needs room above one panel too.
    width = max(2, num_columns) * _PANEL_WIDTH_INCHES
    with matplotlib.rc_context(RC):
        figure = titled_figure(
            width + 0.07 * max(len(name) for name in names),
            num_rows * (_ROW_INCHES * len(names) + 0.9) + 0.5,
            f"Benchmark, size {size}: a dot per seed, a line at the mean\n{_SUBTITLES[size]}",
        )
        grid = figure.subplots(num_rows, num_columns, sharey=True, squeeze=False)
        for axes, protocol in zip(grid.flat, protocols, strict=False):
            own = [result for result in results if result.protocol == protocol]
            _draw_protocol(axes, own, protocol, names, with_paper=size == "paper")
        for axes in list(grid.flat)[len(protocols) :]:
            axes.set_visible(False)
    return figure


def _draw_protocol(
    axes: Axes, results: list[Result], protocol: str, names: list[str], *, with_paper: bool
) -> None:
    metrics = _MAIN_METRICS.get(protocol) or {METRICS[protocol][0]: ("", PYRAMIDS[0])}
    means = aggregate(results)
    shown: list[float] = []
    for index, (metric, (label, colour)) in enumerate(metrics.items()):
        # Box above mask in a row, a single metric in its middle.
        shift = 0.0 if len(metrics) == 1 else (-0.22, 0.22)[index]
        half = _MEAN_HALF_HEIGHT if len(metrics) > 1 else 1.5 * _MEAN_HALF_HEIGHT
        for row, name in enumerate(names):
            values = [
                result.metrics[metric]
                for result in results
                if result.weights == name and metric in result.metrics
            ]
            if not values:
                continue
            y = row + shift
            axes.scatter(values, [y] * len(values), s=26, color=colour, alpha=0.65, linewidths=0)
            mean = means[name, protocol, metric].mean
            axes.plot([mean, mean], [y - half, y + half], color=colour, linewidth=2)
            shown += values
        if with_paper:
            value = PAPER["paper: SS-PRL, COCO"][protocol][metric]
            axes.axvline(value, color=colour if label else INK, linewidth=1, linestyle=(0, (4, 3)))
            shown.append(value)
    for row, name in enumerate(names):
        _mark_missing(axes, [result for result in results if result.weights == name], row)
    if len(metrics) > 1:
        for label, colour in metrics.values():
            axes.scatter([], [], color=colour, label=label)
        axes.legend(
            loc="lower right",
            bbox_to_anchor=(1, 1),
            ncols=2,
            frameon=False,
            borderpad=0,
            handletextpad=0,
            columnspacing=0.8,
        )
    axes.set_title(protocol)
    axes.set_xlabel(f"{next(iter(metrics))}, %")
    axes.set_xlim(*_limits(shown))
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


def _mark_missing(axes: Axes, results: list[Result], row: int) -> None:
    statuses = {result.status for result in results}
    if not statuses or "done" in statuses:
        return
    axes.annotate(
        "failed" if "failed" in statuses else "skipped",
        (0.5, row),
        xycoords=("axes fraction", "data"),
        ha="center",
        va="center",
        color=MUTED,
        fontstyle="italic",
    )


def _limits(values: list[float]) -> tuple[float, float]:
    """Return an axis around the values, in percent, or all of it where nothing is shown."""
    if not values:
        return 0.0, 100.0
    low, high = min(values), max(values)
    span = max(1.2 * (high - low), _MIN_SPAN)
    # Shifted, not cut at 0 and 100: the dots there keep their distance from each other.
    start = min(max((low + high - span) / 2, -0.02 * span), 100 + 0.02 * span - span)
    return start, start + span
