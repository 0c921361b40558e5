"""The runs of a comparison: methods, seeds and lengths, finally and while tuning."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...console.wording import counted
from ...pretraining.methods import Method
from ..options import Equal
from ..run import Run, RunOutcome, module_command
from .images import Split, TrainingImages
from .pace import MethodPace, PaceRun, epochs_for_equal, plan_pace
from .setting import (
    IMAGE_PX,
    CompareSetting,
    code_digest,
    common_options,
    recipe_digest,
    source_of,
)
from .tuning import FACTORS, SEEDS, choose, factors_to_try

TITLES: dict[Equal, str] = {
    "epochs": "Equal epochs",
    "time": "Equal time",
    "flops": "Equal FLOPs",
}
Length = tuple[str, int]
"""Key of a method, and epochs: what a learning rate is chosen for."""
Scores = Mapping[Length, Mapping[float, Sequence[float]]]
"""The mAP of a tuning, by factor of the learning rate."""
_FOLDERS: dict[Split, str] = {"test": "runs", "held-out": "tuning"}
"""Where the runs of a split lie in the work dir."""
_ASKED = ("method", "seed", "epochs", "lr_factor")
"""Settings of a run that its result tells, too."""
_OVERHEAD_S = 30.0
"""Seconds of a run beside its steps: the start of its process, and the probe."""
_ELSEWHERE = ("train_dataloader.dataset", "default_hooks.", "custom_hooks.")
"""Options that say where files are, on which no result depends."""


@dataclass(frozen=True)
class PretrainResult:
    """What one run has measured.

    mAP and mIoU are in [0, 1], mIoU None without masks; ``seconds`` are those of the pre-training,
    of the process on a CPU, else of the device; ``loss`` and ``embedding_spread``
    (``training.SPREAD``) are means over the last epoch.
    """

    method: str
    seed: int
    epochs: int
    lr_factor: float
    mAP: float  # noqa: N815
    chance_mAP: float  # noqa: N815
    mIoU: float | None = None  # noqa: N815
    chance_mIoU: float | None = None  # noqa: N815
    steps: int = 0
    images: int = 0
    seconds: float = 0.0
    loss: float | None = None
    embedding_spread: float | None = None
    collapsed: bool = False
    commit: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class PretrainRun(Run):
    """A pre-training of one method with one seed, and its probe."""

    def summary(self, values: dict[str, Any]) -> str:
        """Return the scores, and a mark if it has collapsed."""
        mark = " (collapsed)" if values.get("collapsed") else ""
        regions = f", mIoU {100 * values['mIoU']:.1f} %" if values.get("mIoU") is not None else ""
        return f"mAP {100 * values['mAP']:.1f} %{regions}{mark}"

    def result(self, outcome: RunOutcome) -> PretrainResult:
        """Return what it has measured."""
        asked = {name: outcome.settings[name] for name in _ASKED}
        names = PretrainResult.__dataclass_fields__.keys() & outcome.values
        return PretrainResult(**asked, **{name: outcome.values[name] for name in names})


def results_of(runs: Iterable[PretrainRun]) -> list[PretrainResult]:
    """Return the results of those runs that are complete."""
    return [run.result(kept) for run in runs if (kept := run.kept())]


def by_method(
    results: Sequence[PretrainResult], methods: Iterable[str]
) -> dict[str, list[PretrainResult]]:
    """Return the results of each method, in the order of the methods."""
    found = {key: [each for each in results if each.method == key] for key in methods}
    return {key: own for key, own in found.items() if own}


def scores_of(tuned: Iterable[PretrainResult]) -> Scores:
    """Return the scores of a tuning."""
    scores: defaultdict[Length, defaultdict[float, list[float]]]
    scores = defaultdict(lambda: defaultdict(list))
    for result in tuned:
        scores[result.method, result.epochs][result.lr_factor].append(result.mAP)
    return scores


def chosen_rates(tuned: Iterable[PretrainResult]) -> dict[Length, float]:
    """Return the factors of the learning rates, as far as the tuning has come."""
    found = {length: choose(scores) for length, scores in scores_of(tuned).items()}
    return {length: factor for length, factor in found.items() if factor}


@dataclass(frozen=True)
class Planner:
    """Makes the runs of one work dir.

    ``methods`` are the rows of the tables, in their order; there is a table for each of ``equal``.
    """

    work_dir: Path
    setting: CompareSetting
    images: Mapping[Split, TrainingImages]
    methods: Mapping[str, Method]
    equal: Sequence[Equal]
    num_seeds: int
    paces: Mapping[str, MethodPace] = field(default_factory=dict)

    def pace_runs(self) -> list[PaceRun]:
        """Return the runs that measure the paces, which tables of equal epochs do not need."""
        about = (self.work_dir, self.setting)
        needed = self.images and {*self.equal} != {"epochs"}
        return [
            plan_pace(*about, method, self.images["test"], self.num_seeds)
            for method in self.methods.values()
            if needed and method.trains
        ]

    def with_paces(self) -> "Planner":
        """Return it with the paces that are measured."""
        found = {run.method.key: run.pace() for run in self.pace_runs()}
        return replace(self, paces={key: pace for key, pace in found.items() if pace})

    def epochs(self, method: Method, equal: Equal) -> int:
        """Return the length of a method's runs, 0 if it does not train; below one is refused."""
        if not method.trains:
            return 0
        if equal == "epochs":
            return self.setting.epochs
        steps = self.images["test"].num_images // self.setting.batch_size
        pace = self.paces[method.key]
        return epochs_for_equal(equal, self.setting.epochs, pace, method, steps)

    def final_runs(self, choices: Mapping[Length, float]) -> dict[Equal, list[PretrainRun]]:
        """Return the runs of each table, seed after seed, so that all methods grow together.

        ``choices`` are factors of learning rates, where they are not 1.
        """
        found: dict[Equal, list[PretrainRun]] = {}
        for equal in self.equal:
            lengths = [(method, self.epochs(method, equal)) for method in self.methods.values()]
            found[equal] = [
                self.run_of(method, epochs, seed, choices.get((method.key, epochs), 1.0), "test")
                for seed in range(self.num_seeds)
                for method, epochs in lengths
            ]
        return found

    def tuning_runs(self, scores: Scores | None = None) -> list[PretrainRun]:
        """Return the runs that choose the learning rates, as long as those that they serve.

        Known ``scores`` tell which factors are tried; None are all.
        """
        trained = [method for method in self.methods.values() if method.trains]
        lengths = dict.fromkeys((m, self.epochs(m, each)) for m in trained for each in self.equal)
        return [
            self.run_of(method, epochs, seed, factor, "held-out")
            for method, epochs in lengths
            for own in [FACTORS if scores is None else factors_to_try(scores[method.key, epochs])]
            for seed in SEEDS
            for factor in own
        ]

    def run_of(
        self, method: Method, epochs: int, seed: int, factor: float, split: Split
    ) -> PretrainRun:
        """Return one run; ``factor`` is that of the learning rate."""
        images, setting = self.images[split], self.setting
        pace = self.paces.get(method.key)
        steps = epochs * (images.num_images // setting.batch_size)
        factor = factor if method.trains else 1.0
        name = f"{method.key}-{epochs}ep-lr{factor:.3g}-seed{seed}"
        folder = self.work_dir / _FOLDERS[split] / name
        rate = "" if factor == 1 else f", lr x {factor:.3g}"
        length = f", {counted(epochs, 'epoch')}" if method.trains else ""
        options = common_options(
            setting, method, images=images, epochs=epochs, seed=seed, lr_factor=factor
        )
        settings = {
            "method": method.key,
            "seed": seed,
            "epochs": epochs,
            "lr_factor": factor,
            "split": split,
            "options": {k: v for k, v in options.items() if not k.startswith(_ELSEWHERE)},
            "recipe": recipe_digest(setting, method),
            "code": code_digest(),
            "images": images.digest,
            "image_px": IMAGE_PX[setting.size],
        }
        read = {"trains": method.trains, "options": options, "data": str(setting.data)}
        return PretrainRun(
            name=f"{method.title}{length}{rate}, seed {seed}",
            folder=folder,
            commands=(module_command(f"{__package__}.training", folder),),
            expected_s=_OVERHEAD_S + steps * (pace.seconds if pace else 0) if self.paces else 0,
            inputs={**settings, **read, **source_of(method, setting.size)},
            settings=settings,
        )
