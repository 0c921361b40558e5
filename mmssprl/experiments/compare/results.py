"""What complete runs have measured, as the tables take it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ...errors import UserValueError
from ...pretraining.methods import Method
from ..run import read_result
from .images import Split
from .plan import FOLDERS, Budget, Length, Planner, taken_factor
from .setting import code_digest, learning_rate
from .tuning import FACTORS, SEEDS, Choice


@dataclass(frozen=True)
class PretrainResult:
    """One run.

    Args:
        method: Key.
        seed: Of the pre-training.
        epochs: Of the pre-training; 0 without one.
        lr_factor: Of the config's learning rate.
        mAP: In [0, 1].
        chance_mAP: Of a constant score.
        steps, images: Of the pre-training.
        seconds: Of the pre-training: of the process on a CPU, else of the device.
        peak_mib: Highest memory: resident on a CPU, else allocated on the device.
        loss: Mean over the last epoch.
        embedding_spread: ``meter.SPREAD`` over the last epoch, if the model logs it.
        collapsed: See ``is_collapsed``; a run whose loss was not finite counts, too.
        commit: Of this package's checkout.
    """

    method: str
    seed: int
    epochs: int
    lr_factor: float
    mAP: float  # noqa: N815
    chance_mAP: float  # noqa: N815
    steps: int = 0
    images: int = 0
    seconds: float = 0.0
    peak_mib: int | None = None
    loss: float | None = None
    embedding_spread: float | None = None
    collapsed: bool = False
    commit: str = ""


def read_results(planner: Planner, split: Split) -> tuple[list[PretrainResult], int]:
    """Return the complete runs of a split that would be made with the same settings today.

    Others, of former code, config or list of images, stay out of the tables until they are done
    again.

    Args:
        planner: Knows the work dir and today's settings.
        split: Which images the runs are trained on.

    Returns:
        Results in the order of the methods, then of epochs, factor and seed; and how many others
        are of other code.

    Raises:
        RuntimeError: A result file is damaged.
    """
    names = {each.name for each in fields(PretrainResult)}
    found, num_others = [], 0
    for path in (planner.work_dir / FOLDERS[split]).glob("*/result.json"):
        content = read_result(path)
        values = {k: v for k, v in content["values"].items() if k in names}
        method = planner.methods.get(values["method"])
        if method is None:
            continue
        result = PretrainResult(**values)
        run = planner.run_of(method, result.epochs, result.seed, result.lr_factor, split)
        if content["settings"] == run.settings([]):
            found.append(result)
        num_others += content["settings"].get("code") != code_digest()
    keys = list(planner.methods)
    found.sort(key=lambda r: (keys.index(r.method), r.epochs, r.lr_factor, r.seed))
    return found, num_others


def in_budget(
    results: Iterable[PretrainResult],
    planner: Planner,
    budget: Budget,
    choices: Mapping[Length, Choice],
) -> dict[str, list[PretrainResult]]:
    """Return the runs of one table, by method in the order of the tables.

    Args:
        results: Of all lengths.
        planner: Knows the length of each method's runs.
        budget: What is equal.
        choices: Of the learning rates.
    """
    table: dict[str, list[PretrainResult]] = {}
    for result in results:
        is_of_it = result.epochs == _length(planner, planner.methods[result.method], budget)
        factor = taken_factor(choices, (result.method, result.epochs))
        if is_of_it and result.lr_factor == factor:
            table.setdefault(result.method, []).append(result)
    return table


def of_tuning(
    results: Iterable[PretrainResult], planner: Planner, budgets: Sequence[Budget]
) -> list[PretrainResult]:
    """Return the runs that choose the learning rates of tables, of all on the held-out images."""
    found = []
    for result in results:
        method = planner.methods[result.method]
        is_tried = result.seed in SEEDS and result.lr_factor in FACTORS
        lengths = [_length(planner, method, budget) for budget in budgets]
        if method.trains and is_tried and result.epochs in lengths:
            found.append(result)
    return found


def scores_of(results: Iterable[PretrainResult]) -> dict[Length, dict[float, list[float]]]:
    """Return the mAP of a tuning, by method and epochs, then by factor."""
    scores: dict[Length, dict[float, list[float]]] = {}
    for r in results:
        scores.setdefault((r.method, r.epochs), {}).setdefault(r.lr_factor, []).append(r.mAP)
    return scores


def _length(planner: Planner, method: Method, budget: Budget) -> int | None:
    """Return the length of a method's runs; None if they have no pace, or not one epoch."""
    if budget != "epochs" and method.trains and method.key not in planner.paces:
        return None
    try:
        return planner.epochs(method, budget)
    except UserValueError:
        return None


def as_row(result: PretrainResult, planner: Planner) -> dict[str, Any]:
    """Return a result as a line of a CSV file, with its learning rate and counted operations."""
    row = {each.name: getattr(result, each.name) for each in fields(PretrainResult)}
    method, pace = planner.methods[result.method], planner.paces.get(result.method)
    return row | {
        "lr": learning_rate(method, planner.setting.size, result.lr_factor)
        if method.trains
        else "",
        "flops": pace.flops * result.steps if pace else "",
    }
