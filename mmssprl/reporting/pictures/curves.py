"""The curves of a run's log, in panels: its losses, its health, its probes."""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import offset_copy

from ...config.build_errors import explain_build_errors
from ...config.run_config import run_config
from ...console.log_line import relative_name
from ...drawing.style import INK, LEARNING_RATE, MUTED, PYRAMIDS, SCALES, own_style, titled_figure
from ...engine.history import Record, read_scalars
from ...errors import UserValueError
from ...models import HealthPanel, LossTerm, is_pretraining
from ...probing.probe_file import Probe, name_of, of_the_run
from ...weights import RANDOM
from ...weights.backbone import build_model

Points = tuple[Sequence[float], Sequence[float]]  # the x and y of a curve
_PANEL_INCHES = (3.3, 2.4)
_PROBES = (*SCALES, MUTED)
_LEGEND_INCHES = 0.3
"""Height of two lines of names below a panel."""
_LABEL_POINTS = 30
"""Height of the numbers and the label of the x axis."""
_LEGEND_CHARACTERS = 42
"""Characters of 8 points in the width of a panel."""
_HANDLE_CHARACTERS = 4
"""Width of a line sample in a legend, with its gaps, in characters."""


class CurvePanel(NamedTuple):
    """Curves by their label, '' for none."""

    title: str
    lines: Mapping[str, Points]
    colours: Sequence[str] = SCALES
    level: float | None = None  # height of a dashed line
    bottom: float | None = 0.0  # of the y axis; None, or one above a curve: as the curves need it


def draw_losses(work_dir: str | Path, records: Sequence[Record] | None = None) -> Figure:
    """Draw every loss term of a run in its own panel, and the learning rate.

    A term is divided by its value at chance, the dashed line: one that stays there has learned
    nothing. A term without a value at chance is divided by its weight. ``records`` are the lines
    of the log; None reads them.
    """
    work_dir = Path(work_dir)
    records = read_scalars(work_dir) if records is None else records
    config = run_config(work_dir)
    if not is_pretraining(config):
        raise UserValueError(
            f"the config must describe a pre-training model, but {config.filename} does not."
        )
    with explain_build_errors(config):
        described: dict[str, LossTerm] = build_model(config.model.to_dict()).loss_terms()
    names = set().union(*records)
    terms = {name: term for name, term in described.items() if name in names}
    if not terms:
        raise UserValueError(
            f"a log must hold the loss terms of {config.model.type}, but the log in "
            f"{work_dir} holds {sorted(names) or 'nothing'}; pass the work dir of a pre-training."
        )
    symbols = [term.symbol for term in terms.values()]
    ordered = sorted(terms, key=lambda name: symbols.index(terms[name].symbol))
    panels = [_loss_panel(records, name, terms[name]) for name in ordered]
    rate = _curve(records, "base_lr" if "base_lr" in names else "lr", "step")
    panels.append(CurvePanel("learning rate", {"": rate}, [LEARNING_RATE]))
    return _draw_panels(panels, "step", f"{Path(config.filename).stem}: loss terms / chance")


def draw_health(
    records: Sequence[Record],
    wanted: Sequence[HealthPanel],
    probes: Sequence[Probe] = (),
) -> Figure | None:
    """Draw the scalars of health over the epochs, and the probes; None if there are none.

    ``wanted`` are the panels of the method. Probes of weights for comparison become level lines.
    """
    names = [*dict.fromkeys(chain.from_iterable(records))]
    panels = []
    for each in wanted:
        lines = {
            each.labels.get(name) or _scale_of(name): _curve(records, name, "epochs_done")
            for name in names
            if re.fullmatch(each.scalars, name)
        }
        if lines:
            panels.append(CurvePanel(each.title, lines))

    if probes:
        title = "mAP of the probes" if probes[0].other_half is None else "other halves found"
        panels.append(CurvePanel(f"{title}, %", _probe_lines(probes), _PROBES))
    return _draw_panels(panels, "epochs") if panels else None


def draw_finetuning(records: Sequence[Record], scores: Mapping[int, float], name: str) -> Figure:
    """Draw the loss of a fine-tuning, and a score of its validations in percent, by epoch."""
    loss = CurvePanel("loss", {"": _curve(records, "loss", "epochs_done")})
    points = {"": ([*scores], [*scores.values()])}
    score = CurvePanel(f"val {name}, %", points, [PYRAMIDS[1]], bottom=None)
    return _draw_panels([loss, score], "epochs")


def _loss_panel(records: Sequence[Record], name: str, term: LossTerm) -> CurvePanel:
    title = f"${term.symbol}$, {'image' if term.scale == 0 else f'level {term.scale}'}"
    if term.chance is None:
        steps, values = _curve(records, name, "step")
        return CurvePanel(title, {"": (steps, [x / term.weight for x in values])}, bottom=None)
    # The weight may change during the training, and with it the logged term.
    curve = _curve(records, relative_name(name), "step")
    return CurvePanel(title, {"": curve}, level=1.0, bottom=None)


def _curve(records: Sequence[Record], name: str, x: str) -> Points:
    found = [record for record in records if name in record]
    return [record[x] for record in found], [record[name] for record in found]


def _probe_lines(probes: Sequence[Probe]) -> dict[str, Points]:
    own = of_the_run(probes)
    epochs = [probe.epoch for probe in own]
    name = "linear" if probes[0].other_half is None else "found"
    lines: dict[str, Points] = {name: (epochs, [100 * probe.score for probe in own])}
    before = [probe for probe in probes if probe.epoch == 0]
    if own[0].weights == RANDOM:  # a curve of its own already
        before = before[1:]
    for other in before:
        lines[f"{name}, {name_of(other)}"] = (epochs, [100 * other.score] * len(own))
    return lines


def _scale_of(name: str) -> str:
    found = re.search(r"_s(\d+)$", name)
    return "" if found is None else "image" if found[1] == "0" else f"level {found[1]}"


def _draw_panels(panels: Sequence[CurvePanel], x_label: str, title: str = "") -> Figure:
    """Draw panels in rows, all of them over the same x axis."""
    # No panel is alone in the last row, where another number of columns prevents it.
    columns = next((n for n in (3, 2, 4) if len(panels) % n != 1), 3)
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width, height = _PANEL_INCHES
    if any(len(panel.lines) > 1 for panel in panels):
        height += _LEGEND_INCHES

    with own_style():
        figure = titled_figure(columns * width, rows * height + (0.5 if title else 0.2), title)
        places = figure.subplots(rows, columns, sharex=True, squeeze=False).flat
        for axes, panel in zip_longest(places, panels):
            if panel is None:
                axes.set_visible(False)
                continue
            for (label, points), colour in zip(panel.lines.items(), panel.colours, strict=False):
                axes.plot(*points, color=colour, linewidth=1.6, label=label)
            if panel.level is not None:
                axes.axhline(panel.level, color=INK, linewidth=1, linestyle=(0, (4, 3)))

            axes.set_title(panel.title, fontsize=9)
            axes.margins(y=0.18)
            axes.set_ylim(None if axes.dataLim.ymin < 0 else panel.bottom)
            axes.tick_params(labelbottom=True)
            axes.set_xlabel(x_label)
            axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
            if len(panel.lines) > 1:
                _write_legend(figure, axes, panel.lines)
    return figure


def _write_legend(figure: Figure, axes: Axes, labels: Collection[str]) -> None:
    """Name the curves below the x axis, where they cannot be hidden."""
    columns = max(1, _LEGEND_CHARACTERS // (max(map(len, labels)) + _HANDLE_CHARACTERS))
    below_label = offset_copy(axes.transAxes, figure, y=-_LABEL_POINTS, units="points")
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=below_label,
        ncols=columns,
        fontsize=8,
        handlelength=1.2,
        columnspacing=1.0,
        borderpad=0,
        frameon=False,
    )
