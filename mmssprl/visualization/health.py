"""Whether a run is healthy, by what its log measures; and runs that are, or are not, beside it."""

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..console.style import HEALTHY, MUTED, PYRAMIDS, RC, SCALES, titled_figure
from ..features.probe_record import Probe, for_comparison, name_of, of_the_run
from ..monitoring import Band, Record, band_of

EXAMPLES_FILE = Path(__file__).with_name("examples.csv")
"""Made by ``python -m tools.dev.monitoring.bands``."""

_PANELS = {
    "embedding spread": ("embedding_spread",),
    "effective rank (RankMe)": ("effective_rank",),
    "mean cosine of two views": ("alignment", "alignment_others"),
    "share of the prototypes in use": ("prototypes_in_use_s",),
    "code perplexity / K": ("code_perplexity_s",),
    "perplexity of the mean prediction / K": ("prediction_perplexity_s",),
    "share of keys found in the queue": ("queue_top1",),
}
"""Scalars by the title of their panel; a name that ends in _s stands for all scales."""
_LABELS = {"alignment": "of one image", "alignment_others": "of two images"}
_EXAMPLE_LABELS = {"relative_pyramid_s0": "loss / ln K", "embedding_spread": "embedding spread"}
_PANEL_INCHES, _COLUMNS = (3.3, 2.3), 3


def draw_health(records: Sequence[Record], probes: Sequence[Probe] = ()) -> Figure | None:
    """Draw spread, rank, alignment, prototypes and perplexities over the epochs, and the probes.

    Behind each curve lies the band of healthy runs of ``mmssprl.monitoring``, if there is one for
    the scalar or, where a panel shows several scales, for the image.

    Args:
        records: Lines of the log, at least one.
        probes: In the order of their epochs; those of weights for comparison become level lines.

    Returns:
        None if there is nothing to draw.
    """
    names = list(dict.fromkeys(name for record in records for name in record))
    panels = {title: _lines(records, names, wanted) for title, wanted in _PANELS.items()}
    if probes:
        own = of_the_run(probes)
        panels["mAP of the probes"] = {
            "linear": [(probe.epoch, probe.linear_mAP) for probe in own],
            "nearest neighbours": [(probe.epoch, probe.knn_mAP) for probe in own],
            **{
                f"linear, {name_of(other)}": [(probe.epoch, other.linear_mAP) for probe in own]
                for other in for_comparison(probes)
            },
        }
    panels = {title: lines for title, lines in panels.items() if lines}
    if not panels:
        return None
    last = records[-1]
    num_rows = -(-len(panels) // _COLUMNS)
    with matplotlib.rc_context(RC):
        width, height = _COLUMNS * _PANEL_INCHES[0], num_rows * _PANEL_INCHES[1] + 0.2
        figure = titled_figure(width, height, "")
        grid = figure.subplots(num_rows, _COLUMNS, sharex=True, squeeze=False)
        for axes, (title, lines) in zip(grid.flat, panels.items(), strict=False):
            if (band := band_of(next(iter(lines)))) is not None:
                draw_band(axes, band, last["epochs_done"] / last["progress"])
            for (name, points), colour in zip(lines.items(), SCALES, strict=False):
                label = _LABELS.get(name) or _scale_of(name) or name
                axes.plot(*zip(*points, strict=True), color=colour, linewidth=1.6, label=label)
            if len(lines) > 1:
                axes.legend(fontsize=7, framealpha=0.8, edgecolor="none")
            axes.set_title(title, fontsize=9)
            axes.set_ylim(bottom=0)
            axes.tick_params(labelbottom=True)
            axes.set_xlabel("epochs")
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
    return figure


def draw_examples() -> Figure:
    """Draw a healthy run, one that has collapsed and one that learns nothing, on the bands."""
    runs = read_examples()
    with matplotlib.rc_context(RC):
        figure = titled_figure(3.3 * len(runs), 2.5, "")
        for axes, (title, records) in zip(figure.subplots(1, len(runs)), runs.items(), strict=True):
            progress = [record["progress"] for record in records]
            for (name, label), colour in zip(_EXAMPLE_LABELS.items(), PYRAMIDS, strict=True):
                values = [record[name] for record in records]
                axes.plot(progress, values, color=colour, linewidth=1.6, label=label)
            if (band := band_of("relative_pyramid_s0")) is not None:
                draw_band(axes, band)
            axes.axhline(1, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
            axes.set_title(title)
            axes.set_xlim(0, 1)
            axes.set_ylim(0, 1.3)
            axes.set_xlabel("share of the training")
        figure.axes[0].legend(loc="lower left", fontsize=7, framealpha=0.8, edgecolor="none")
    return figure


def read_examples() -> Mapping[str, list[Record]]:
    """Return the lines of the shipped runs by what they are."""
    runs: dict[str, list[Record]] = {}
    with EXAMPLES_FILE.open(newline="") as file:
        for row in csv.DictReader(file):
            title = row.pop("run")
            runs.setdefault(title, []).append({name: float(text) for name, text in row.items()})
    return runs


def draw_band(axes: Axes, band: Band, length: float = 1.0, factor: float = 1.0) -> None:
    """Fill the range of healthy runs.

    Args:
        axes: Where.
        band: In shares of a training.
        length: Of the training, on the x axis.
        factor: Of the values.
    """
    progress = [length * share for share in band.progress]
    low, high = ([factor * value for value in values] for values in (band.lowest, band.highest))
    axes.fill_between(progress, low, high, color=HEALTHY, linewidth=0, label="healthy runs")


def _lines(
    records: Sequence[Record], names: Sequence[str], wanted: Sequence[str]
) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each scalar that is wanted, or begins so: epochs and value."""
    chosen = (
        name
        for name in names
        if name in wanted or any(w.endswith("_s") and name.startswith(w) for w in wanted)
    )
    return {n: [(r["epochs_done"], r[n]) for r in records if n in r] for n in chosen}


def scalar_name(name: str) -> str:
    """Return a scalar of the log in words: 'relative_pyramid_s1' is a loss of level 1."""
    base, scale = re.sub(r"_s\d+$", "", name), _scale_of(name)
    kind = base.removeprefix("relative_")
    words = f"{kind} loss / chance" if kind != base else base.replace("_", " ")
    return f"{words}, {scale}" if scale else words


def _scale_of(name: str) -> str:
    found = re.search(r"_s(\d+)$", name)
    return "" if found is None else "image" if found[1] == "0" else f"level {found[1]}"
