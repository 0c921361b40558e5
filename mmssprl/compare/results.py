"""What complete runs have measured, as the tables take it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..errors import UserValueError
from ..runs.run import read_result
from .images import Split
from .methods import Method
from .plan import FACTORS, TUNING_SEEDS, Budget, Planner
from .setting import learning_rate


@dataclass(frozen=True)
class Result:
    """One run.

    Args:
        method: Key.
        seed: Of the pre-training.
        epochs: Of the pre-training; 0 without one.
        lr_factor: Of the config's learning rate.
        mAP: In [0, 1], mean over the probe seeds.
        chance_mAP: Of a constant score.
        probes: mAP of each probe seed.
        steps, images: Of the pre-training.
        seconds: Of the pre-training: of the process on a CPU, else of the device.
        peak_mib: Highest memory: resident on a CPU, else allocated on the device.
        loss: Mean over the last epoch.
        embedding_spread: ``meter.SPREAD`` over the last epoch, if the model logs it.
        collapsed: See ``meter.has_collapsed``.
        commit: Of this package's checkout.
    """

    method: str
    seed: int
    epochs: int
    lr_factor: float
    mAP: float  # noqa: N815
    chance_mAP: float  # noqa: N815
    probes: list[float] = field(default_factory=list)
    steps: int = 0
    images: int = 0
    seconds: float = 0.0
    peak_mib: int | None = None
    loss: float | None = None
    embedding_spread: float | None = None
    collapsed: bool = False
    commit: str = ""


def read_results(folder: Path, planner: Planner, split: Split) -> list[Result]:
    """Return the complete runs below a folder that would be made with the same settings today.

    Others, of a former config or list of images, stay out of the tables until they are done again.

    Args:
        folder: Of the runs of a split.
        planner: Knows today's settings.
        split: Which images the runs are trained on.

    Returns:
        Results in the order of the methods, then of epochs, factor and seed.

    Raises:
        RuntimeError: A result file is damaged.
    """
    names = {each.name for each in fields(Result)}
    found = []
    for path in folder.glob("*/result.json"):
        content = read_result(path)
        values = {k: v for k, v in content["values"].items() if k in names}
        method = planner.methods.get(values["method"])
        if method is None:
            continue
        result = Result(**values)
        run = planner.run_of(method, result.epochs, result.seed, result.lr_factor, split)
        if content["settings"] == run.settings([]):
            found.append(result)
    keys = list(planner.methods)
    return sorted(found, key=lambda r: (keys.index(r.method), r.epochs, r.lr_factor, r.seed))


def in_budget(
    results: Iterable[Result], planner: Planner, budget: Budget, factors: Mapping[str, float]
) -> dict[str, list[Result]]:
    """Return the runs of one table, by method in the order of the tables.

    Args:
        results: Of all lengths.
        planner: Knows the length of each method's runs.
        budget: What is equal.
        factors: Of the learning rates, by method; 1 where there is none.
    """
    table: dict[str, list[Result]] = {}
    for result in results:
        is_of_it = result.epochs == _length(planner, planner.methods[result.method], budget)
        if is_of_it and result.lr_factor == factors.get(result.method, 1.0):
            table.setdefault(result.method, []).append(result)
    return table


def of_tuning(results: Iterable[Result], planner: Planner, reference_epochs: int) -> list[Result]:
    """Return the runs that choose the learning rates, of all on the held-out images.

    Args:
        results: Of all lengths.
        planner: Knows the length of the tuning's runs.
        reference_epochs: Epochs of SS-PRL in the tuning.
    """
    found = []
    for result in results:
        method = planner.methods[result.method]
        length = _length(planner, method, "time", reference_epochs)
        if method.trains and result.epochs == length and result.seed in TUNING_SEEDS:
            found.append(result)
    return found


def choose_factors(results: Sequence[Result], planner: Planner) -> dict[str, float]:
    """Return the factor of the learning rate with the best mean mAP, by method.

    Args:
        results: Of the tuning.
        planner: Knows the methods.

    Returns:
        Only methods with all seeds of all factors; of equal ones the factor nearest to 1.
    """
    chosen = {}
    for method in filter(lambda method: method.trains, planner.methods.values()):
        own = [r for r in results if r.method == method.key]
        scores = {
            factor: [r.mAP for r in own if r.lr_factor == factor]
            for factor in sorted(FACTORS, key=lambda factor: factor != 1)
        }
        if all(len(values) == len(TUNING_SEEDS) for values in scores.values()):
            chosen[method.key] = max(scores, key=lambda factor: sum(scores[factor]))
    return chosen


def _length(
    planner: Planner, method: Method, budget: Budget, reference_epochs: int | None = None
) -> int | None:
    """Return the length of a method's runs; None if they have no pace, or not one epoch."""
    if budget == "time" and method.trains and method.key not in planner.paces:
        return None
    try:
        return planner.epochs(method, budget, reference_epochs)
    except UserValueError:
        return None


def as_row(result: Result, planner: Planner) -> dict[str, Any]:
    """Return a result as a line of a CSV file, with its learning rate and counted operations."""
    row = {each.name: getattr(result, each.name) for each in fields(Result)}
    method, pace = planner.methods[result.method], planner.paces.get(result.method)
    return row | {
        "probes": " ".join(f"{score:.6f}" for score in result.probes),
        "lr": learning_rate(method, planner.setting.size, result.lr_factor)
        if method.trains
        else "",
        "flops": pace.flops * result.steps if pace else "",
    }
