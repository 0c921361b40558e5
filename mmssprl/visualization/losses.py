"""The loss terms of a run against ln K, the value of a uniform prediction."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from mmengine.config import Config
from mmengine.registry import DefaultScope

from ..config.build_errors import explain_build_errors
from ..config.found_config import found_config
from ..console.log_line import relative_name
from ..console.style import INK, LEARNING_RATE, MUTED, PYRAMIDS, RC, titled_figure
from ..errors import UserValueError
from ..models import LossTerm, PretrainingModel, is_pretraining
from ..monitoring import Record, band_of, read_log
from ..registry import MODELS
from .health import draw_band

_PANEL_INCHES = (3.3, 2.5)


def draw_losses(work_dir: str | Path, records: Sequence[Record] | None = None) -> Figure:
    """Draw every loss term of a run, divided by its weight, in a panel of its own.

    One row per kind of term and one column per scale, each with ln K, the value of a uniform
    prediction: a term that stays at its line has learned nothing. Behind it lies the band of the
    healthy runs of ``mmssprl.monitoring``. The learning rate takes the first free panel.

    Args:
        work_dir: Holds the dumped config (``*.py``) and ``*/vis_data/scalars.json`` of a run and
            of its resumed parts.
        records: Lines of its log; None reads them.

    Raises:
        FileNotFoundError: No folder, no log or no config in it.
        ValueError: A log without the model's loss terms or a damaged one, or several configs.
    """
    work_dir = Path(work_dir)
    records = read_log(work_dir).records if records is None else records
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
    num_rows = len(symbols) + (len(terms) == len(symbols) * num_columns)  # one for the rate
    with matplotlib.rc_context(RC):
        figure = titled_figure(
            num_columns * _PANEL_INCHES[0],
            num_rows * _PANEL_INCHES[1] + 0.5,
            f"{Path(config.filename).stem}: loss terms divided by their weights",
        )
        grid = figure.subplots(num_rows, num_columns, sharex=True, squeeze=False)
        free = dict.fromkeys(grid.flat)
        for name, term in terms.items():
            row = symbols.index(term.symbol)
            axes = grid[row, term.scale]
            free.pop(axes, None)
            series = _unweighted(records, name, term)
            band = band_of(relative_name(name))
            if band is not None and term.chance is not None:
                last = records[-1]
                num_steps = last["step"] / last.get("progress", 1.0)
                draw_band(axes, band, num_steps, term.chance)
                axes.legend(loc="lower left", fontsize=8, frameon=False)
            _draw_term(axes, series, term, PYRAMIDS[row % 2])
        rate_axes = grid[-1, 0] if grid[-1, 0] in free else next(iter(free))
        free.pop(rate_axes)
        rate_axes.plot(*_series(records, "lr"), color=LEARNING_RATE, linewidth=1.6)
        rate_axes.set_title("learning rate")
        rate_axes.set_ylim(bottom=0)
        for axes in free:
            axes.set_visible(False)
        for axes in grid[-1]:
            axes.set_xlabel("step")
    return figure


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


def _draw_term(
    axes: Axes, series: tuple[list[int], list[float]], term: LossTerm, colour: str
) -> None:
    steps, values = series
    axes.plot(steps, values, color=colour, linewidth=1.6)
    if term.chance is not None:
        uniform, count = term.chance, term.num_classes
        text = rf"$\ln {term.classes}$ = ln {count} = " if count else "chance "
        axes.axhline(uniform, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            f"{text}{uniform:.2f}",
            (0.98, uniform),
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
    place = "image" if term.scale == 0 else f"level {term.scale}"
    axes.set_title(f"${term.symbol}$, {place}")
    axes.margins(y=0.18)
