"""The loss terms of a run against ln K, the value of a uniform prediction."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from mmengine.config import Config
from mmengine.registry import DefaultScope

from ..config.build_errors import explain_build_errors
from ..config.found_config import found_config
from ..console.log_line import relative_name
from ..console.style import LEARNING_RATE, PYRAMIDS
from ..errors import UserValueError
from ..models import LossTerm, PretrainingModel, is_pretraining
from ..monitoring import Record, band_of, read_scalars
from ..registry import MODELS
from .curves import CurvePanel, draw_panels


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
