"""The curves of a run's log, in panels on the ranges of healthy runs: its losses and its health."""

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from mmengine.config import Config
from mmengine.registry import DefaultScope

from ..config.build_errors import explain_build_errors
from ..config.found_config import found_config
from ..console.log_line import relative_name
from ..console.style import HEALTHY, INK, LEARNING_RATE, MUTED, PYRAMIDS, RC, SCALES, titled_figure
from ..errors import UserValueError
from ..features.probe_record import Probe, for_comparison, name_of, of_the_run
from ..models import LossTerm, PretrainingModel, is_pretraining
from ..monitoring import Band, Record, band_of, read_scalars
from ..registry import MODELS

Points = tuple[Sequence[float], Sequence[float]]
"""The x and y of a curve."""
_PANEL_INCHES = (3.3, 2.4)
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
_COLUMNS = 3


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


def draw_losses(work_dir: str | Path, records: Sequence[Record] | None = None) -> Figure:
    """Draw every loss term of a run, divided by its weight, in a panel of its own.

    One row per kind of term and one column per scale, each with ln K, the value of a uniform
    prediction: a term that stays at its line has learned nothing. Behind it lies the band of the
    healthy runs of ``mmssprl.monitoring``. The learning rate takes the first free panel.

    Args:
        work_dir: Holds the dumped config (``*.py``) and ``*/vis_data/scalars.json`` of a run and
            of its resumed parts.
        records: Lines of its log; None reads them.
    """
    work_dir = Path(work_dir)
    records = read_scalars(work_dir) if records is None else records
    config = found_config(work_dir)
    names = set().union(*records)
    terms = {name: term for name, term in _loss_terms(config).items() if name in names}
    if not terms:
        raise UserValueError(
            f"a log must hold the loss terms of {config.model.type}, but the log in "
            f"{work_dir} holds {sorted(names) or 'nothing'}; pass the work dir of a pre-training."
        )
    symbols = list(dict.fromkeys(term.symbol for term in terms.values()))
    num_columns = max(2, *(1 + term.scale for term in terms.values()))
    rows: list[list[CurvePanel | None]] = [[None] * num_columns for _ in symbols]
    for name, term in terms.items():
        row = symbols.index(term.symbol)
        rows[row][term.scale] = _panel(records, name, term, PYRAMIDS[row % 2])
    rate = CurvePanel("learning rate", {"": _series(records, "lr")}, [LEARNING_RATE], bottom=0)
    free = next((row for row in rows if None in row), None)
    if free is None:
        rows.append([rate])
    else:
        free[free.index(None)] = rate
    title = f"{Path(config.filename).stem}: loss terms divided by their weights"
    return draw_panels(rows, "step", title=title)


def _loss_terms(cfg: Config) -> dict[str, LossTerm]:
    """Ask the config's own model, so that weights and defaults are known in one place."""
    if not is_pretraining(cfg):
        raise UserValueError(
            f"the config must describe a pre-training model, but {cfg.filename} does not; "
            "pass the work dir of a pre-training."
        )
    scope = DefaultScope.overwrite_default_scope("mmssprl")
    with scope, explain_build_errors(cfg):
        model: PretrainingModel = MODELS.build(cfg.model)
    return model.loss_terms()


def _series(records: Sequence[Record], name: str) -> tuple[list[int], list[float]]:
    found = [(record["step"], record[name]) for record in records if name in record]
    return [step for step, _ in found], [value for _, value in found]


def _unweighted(
    records: Sequence[Record], name: str, term: LossTerm
) -> tuple[list[int], list[float]]:
    """Return the steps and values of a term without its weight, which may change on the way."""
    steps, relative = _series(records, relative_name(name))
    if relative and term.chance is not None:
        return steps, [value * term.chance for value in relative]
    steps, values = _series(records, name)  # the log of another LogProcessor
    return steps, [value / term.weight for value in values]


def _panel(records: Sequence[Record], name: str, term: LossTerm, colour: str) -> CurvePanel:
    place = "image" if term.scale == 0 else f"level {term.scale}"
    panel = CurvePanel(
        f"${term.symbol}$, {place}", {"": _unweighted(records, name, term)}, [colour]
    )
    if term.chance is None:
        return panel
    count, last = term.num_classes, records[-1]
    text = rf"$\ln {term.classes}$ = ln {count} = " if count else "chance "
    return panel._replace(
        band=band_of(relative_name(name)),
        length=last["step"] / last.get("progress", 1.0),
        factor=term.chance,
        level=term.chance,
        level_text=f"{text}{term.chance:.2f}",
    )


def draw_health(records: Sequence[Record], probes: Sequence[Probe] = ()) -> Figure | None:
    """Draw the scalars of health over the epochs, and the probes; None if there are none.

    Behind each curve lies the band of healthy runs of ``mmssprl.monitoring``, if there is one for
    the scalar or, where a panel shows several scales, for the image. Probes of weights for
    comparison become level lines.
    """
    names = list(dict.fromkeys(name for record in records for name in record))
    last = records[-1]
    panels = []
    for title, wanted in _PANELS.items():
        chosen = [name for name in names if _is_wanted(name, wanted)]
        if chosen:
            lines = {_label(name): _points(records, name) for name in chosen}
            length = last["epochs_done"] / last["progress"]
            panels.append(
                CurvePanel(title, lines, band=band_of(chosen[0]), length=length, bottom=0)
            )
    if probes:
        panels.append(CurvePanel("mAP of the probes", _probe_lines(probes), bottom=0))
    if not panels:
        return None
    rows = [panels[i : i + _COLUMNS] for i in range(0, len(panels), _COLUMNS)]
    return draw_panels(rows, "epochs")


def _is_wanted(name: str, wanted: Sequence[str]) -> bool:
    return name in wanted or any(w.endswith("_s") and name.startswith(w) for w in wanted)


def _points(records: Sequence[Record], name: str) -> Points:
    found = [record for record in records if name in record]
    return [record["epochs_done"] for record in found], [record[name] for record in found]


def _probe_lines(probes: Sequence[Probe]) -> dict[str, Points]:
    own = of_the_run(probes)
    epochs = [probe.epoch for probe in own]
    return {
        "linear": (epochs, [probe.linear_mAP for probe in own]),
        "nearest neighbours": (epochs, [probe.knn_mAP for probe in own]),
        **{
            f"linear, {name_of(other)}": (epochs, [other.linear_mAP] * len(own))
            for other in for_comparison(probes)
        },
    }


def _label(name: str) -> str:
    return _LABELS.get(name) or _scale_of(name)


def scalar_name(name: str) -> str:
    """Return a scalar of the log in words: 'relative_pyramid_s1' is a loss of level 1."""
    base, scale = re.sub(r"_s\d+$", "", name), _scale_of(name)
    kind = base.removeprefix("relative_")
    words = f"{kind} loss / chance" if kind != base else base.replace("_", " ")
    return f"{words}, {scale}" if scale else words


def _scale_of(name: str) -> str:
    found = re.search(r"_s(\d+)$", name)
    return "" if found is None else "image" if found[1] == "0" else f"level {found[1]}"
