"""The curves of a run's log, in panels on the ranges of healthy runs: its losses, its health."""

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from mmengine.config import Config
from mmengine.registry import DefaultScope

from ..config.build_errors import explain_build_errors
from ..config.run_config import run_config
from ..console.log_line import relative_name
from ..console.style import HEALTHY, INK, LEARNING_RATE, MUTED, PYRAMIDS, RC, SCALES, titled_figure
from ..errors import UserValueError
from ..features.probe_file import Probe, for_comparison, name_of, of_the_run
from ..models import LossTerm, PretrainingModel, is_pretraining
from ..monitoring import Band, Record, band_of, read_scalars
from ..registry import MODELS
from ..weights import RANDOM

Points = tuple[Sequence[float], Sequence[float]]  # the x and y of a curve
_PANEL_INCHES = (3.3, 2.4)
_HEALTH = {
    "embedding spread": r"embedding_spread",
    "effective rank (RankMe)": r"effective_rank",
    "mean cosine of two views": r"alignment(_others)?",
    "share of the prototypes in use": r"prototypes_in_use_s\d+",
    "code perplexity / K": r"code_perplexity_s\d+",
    "perplexity of the mean prediction / K": r"prediction_perplexity_s\d+",
    "share of keys found in the queue": r"queue_top1",
}
"""The scalars of each panel of health, by its title."""
_LABELS = {"alignment": "of one image", "alignment_others": "of two images"}
_HEALTH_COLUMNS = 3
_PROBES = (*SCALES, MUTED)


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
    bottom: float | None = None  # end of the y axis; None takes that of the curves


def draw_losses(work_dir: str | Path, records: Sequence[Record] | None = None) -> Figure:
    """Draw every loss term of a run, divided by its weight, in a panel of its own.

    One row per kind of term and one column per scale, each with ln K, the value of a uniform
    prediction: a term that stays at its line has learned nothing. Behind it lies the band of
    healthy runs. The learning rate takes the first free panel. ``records`` are the lines of the
    log; None reads them.
    """
    work_dir = Path(work_dir)
    records = read_scalars(work_dir) if records is None else records
    config = run_config(work_dir)
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
        rows[row][term.scale] = _loss_panel(records, name, term, PYRAMIDS[row % 2])
    curve = _curve(records, "base_lr" if "base_lr" in names else "lr", "step")
    rate = CurvePanel("learning rate", {"": curve}, [LEARNING_RATE], bottom=0)
    rows = rows if any(None in row for row in rows) else [*rows, [None]]
    free = next(row for row in rows if None in row)
    free[free.index(None)] = rate
    title = f"{Path(config.filename).stem}: loss terms divided by their weights"
    return _draw_panels(rows, "step", title=title)


def draw_health(records: Sequence[Record], probes: Sequence[Probe] = ()) -> Figure | None:
    """Draw the scalars of health over the epochs, and the probes; None if there are none.

    Behind each lies the band of healthy runs, if there is one. Probes of weights for comparison
    become level lines.
    """
    names = list(dict.fromkeys(name for record in records for name in record))
    length = records[-1]["epochs_done"] / records[-1]["progress"]
    panels = []
    for title, wanted in _HEALTH.items():
        if chosen := [name for name in names if re.fullmatch(wanted, name)]:
            lines = {
                _LABELS.get(name) or _scale_of(name): _curve(records, name, "epochs_done")
                for name in chosen
            }
            band = band_of(chosen[0])
            panels.append(CurvePanel(title, lines, band=band, length=length, bottom=0))
    if probes and probes[0].other_half is not None:
        own = of_the_run(probes)
        ranks = {"": ([p.epoch for p in own], [p.rank_me or 0.0 for p in own])}
        panels.append(CurvePanel("other halves found, %", _probe_lines(probes), bottom=0))
        panels.append(CurvePanel("RankMe of the frozen features", ranks, bottom=0))
    elif probes:
        panels.append(CurvePanel("mAP of the probes, %", _probe_lines(probes), _PROBES, bottom=0))
    if not panels:
        return None
    starts = range(0, len(panels), _HEALTH_COLUMNS)
    return _draw_panels([panels[i : i + _HEALTH_COLUMNS] for i in starts], "epochs")


def draw_finetuning(records: Sequence[Record], scores: Mapping[int, float], name: str) -> Figure:
    """Draw the loss of a fine-tuning, and a score of its validations in percent, by epoch."""
    loss = CurvePanel("loss", {"": _curve(records, "loss", "epochs_done")}, bottom=0)
    points = {"": ([*scores], [*scores.values()])}
    score = CurvePanel(f"val {name}, %", points, [PYRAMIDS[1]])
    return _draw_panels([[loss, score]], "epochs")


def scalar_name(name: str) -> str:
    """Return a scalar of the log in words: 'relative_pyramid_s1' is a loss of level 1."""
    base, scale = re.sub(r"_s\d+$", "", name), _scale_of(name)
    kind = base.removeprefix("relative_")
    words = f"{kind} loss / chance" if kind != base else base.replace("_", " ")
    return f"{words}, {scale}" if scale else words


def _loss_terms(cfg: Config) -> dict[str, LossTerm]:
    """Ask the config's own model."""
    if not is_pretraining(cfg):
        raise UserValueError(
            f"the config must describe a pre-training model, but {cfg.filename} does not."
        )
    scope = DefaultScope.overwrite_default_scope("mmssprl")
    with scope, explain_build_errors(cfg):
        model: PretrainingModel = MODELS.build(cfg.model)
    return model.loss_terms()


def _loss_panel(records: Sequence[Record], name: str, term: LossTerm, colour: str) -> CurvePanel:
    """Return the panel of a term without its weight, which may change on the way."""
    title = f"${term.symbol}$, {'image' if term.scale == 0 else f'level {term.scale}'}"
    relative = relative_name(name)
    steps, values = _curve(records, relative, "step")
    if values and term.chance is not None:
        values = [value * term.chance for value in values]
    else:  # the log of another LogProcessor
        steps, values = _curve(records, name, "step")
        values = [value / term.weight for value in values]
    panel = CurvePanel(title, {"": (steps, values)}, [colour])
    if term.chance is None:
        return panel
    count, last = term.num_classes, records[-1]
    text = rf"$\ln {term.classes}$ = ln {count} = " if count else "chance "
    return panel._replace(
        band=band_of(relative),
        length=last["step"] / last.get("progress", 1.0),
        factor=term.chance,
        level=term.chance,
        level_text=f"{text}{term.chance:.2f}",
    )


def _curve(records: Sequence[Record], name: str, x: str) -> Points:
    found = [record for record in records if name in record]
    return [record[x] for record in found], [record[name] for record in found]


def _probe_lines(probes: Sequence[Probe]) -> dict[str, Points]:
    own = of_the_run(probes)
    epochs = [probe.epoch for probe in own]
    name = "linear" if probes[0].other_half is None else "found"
    lines: dict[str, Points] = {name: (epochs, [100 * probe.score for probe in own])}
    if probes[0].other_half is None:
        lines["nearest neighbours"] = (epochs, [100 * (probe.knn_mAP or 0.0) for probe in own])
    for other in (*[own[0]] * (own[0].weights != RANDOM), *for_comparison(probes)):
        lines[f"{name}, {name_of(other)}"] = (epochs, [100 * other.score] * len(own))
    return lines


def _scale_of(name: str) -> str:
    found = re.search(r"_s(\d+)$", name)
    return "" if found is None else "image" if found[1] == "0" else f"level {found[1]}"


def _draw_panels(
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
        low = [panel.factor * value for value in panel.band.lowest]
        high = [panel.factor * value for value in panel.band.highest]
        axes.fill_between(progress, low, high, color=HEALTHY, linewidth=0, label="healthy runs")
    for (label, points), colour in zip(panel.lines.items(), panel.colours, strict=False):
        axes.plot(*points, color=colour, linewidth=1.6, label=label)
    if panel.level is not None:
        axes.axhline(panel.level, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8}
        style: dict[str, Any] = {"color": MUTED, "fontsize": 8, "ha": "right", "va": "bottom"}
        place, frame = (0.98, panel.level), ("axes fraction", "data")
        axes.annotate(panel.level_text, place, xycoords=frame, bbox=box, zorder=4, **style)
    axes.set_title(panel.title, fontsize=9)
    axes.margins(y=0.18)
    axes.set_ylim(panel.bottom)
    if len(panel.lines) > 1 or panel.band is not None:
        axes.legend(fontsize=7, framealpha=0.8, edgecolor="none")
