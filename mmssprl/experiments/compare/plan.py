"""The runs of a comparison: methods, seeds and lengths, finally and while tuning."""

import glob
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ...console.wording import counted
from ...errors import UserValueError
from ...pretraining.methods import BY_KEY, Method
from ..run import Run, module_command
from .images import Split, TrainingImages
from .pace import MethodPace, epochs_for_equal
from .setting import (
    IMAGE_PX,
    CompareSetting,
    code_digest,
    common_options,
    recipe_digest,
    source_of,
)
from .tuning import FACTORS, SEEDS, choose, factors_to_try

Equal = Literal["epochs", "time", "flops"]
"""What all methods of a table get alike."""
TITLES: dict[Equal, str] = {
    "epochs": "Equal epochs",
    "time": "Equal time",
    "flops": "Equal FLOPs",
}
Length = tuple[str, int]
"""Key of a method, and epochs: what a learning rate is chosen for."""
_FOLDERS: dict[Split, str] = {"test": "runs", "held-out": "tuning"}
"""Where the runs of a split lie in the work dir."""
_OVERHEAD_S = 30.0
"""Seconds of a run beside its steps: the start of its process, and the probe."""
_ELSEWHERE = ("train_dataloader.dataset", "default_hooks.")
"""Options that say where files are, on which no result depends."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PretrainRun(Run):
    """A pre-training of one method with one seed, and its probe."""

    def summary(self, values: dict[str, Any]) -> str:
        """Return the scores, and a mark if it has collapsed."""
        mark = " (collapsed)" if values.get("collapsed") else ""
        regions = f", mIoU {100 * values['mIoU']:.1f} %" if values.get("mIoU") is not None else ""
        return f"mAP {100 * values['mAP']:.1f} %{regions}{mark}"


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


@dataclass(frozen=True)
class Planner:
    """Makes the runs of one work dir, and finds what is complete of them.

    ``methods`` are the rows that a table may have, in their order; there is a table for each of
    ``equal``; ``tunes`` if the learning rates of its runs are chosen.
    """

    work_dir: Path
    setting: CompareSetting
    paces: Mapping[str, MethodPace]
    images: Mapping[Split, TrainingImages]
    methods: Mapping[str, Method] = field(default_factory=lambda: BY_KEY)
    equal: Sequence[Equal] = ()
    tunes: bool = False

    @property
    def choices(self) -> dict[Length, float]:
        """Factors of the learning rates, as far as the tuning has come; elsewhere it is 1."""
        found = {length: choose(scores) for length, scores in self._scores().items()}
        return {length: factor for length, factor in found.items() if factor}

    def _scores(self) -> dict[Length, dict[float, list[float]]]:
        """Return the mAP of a tuning, by method and epochs, then by factor."""
        scores: defaultdict[Length, dict[float, list[float]]] = defaultdict(dict)
        for result in self.tuning_results():
            of_length = scores[result.method, result.epochs]
            of_length.setdefault(result.lr_factor, []).append(result.mAP)
        return scores

    def epochs(self, method: Method, equal: Equal) -> int:
        """Return the length of a method's runs, 0 if it does not train; below one is refused."""
        if not method.trains:
            return 0
        if equal == "epochs":
            return self.setting.epochs
        return epochs_for_equal(equal, self.setting.epochs, self.paces[method.key], method)

    def final_runs(self, methods: Sequence[Method], num_seeds: int) -> list[PretrainRun]:
        """Return the runs of the tables, seed after seed, so that all methods grow together.

        A run that is of several tables is there once.
        """
        found: dict[Path, PretrainRun] = {}
        choices = self.choices
        for seed in range(num_seeds):
            for equal in self.equal:
                for method in methods:
                    epochs = self.epochs(method, equal)
                    factor = choices.get((method.key, epochs), 1.0)
                    run = self.run_of(method, epochs, seed, factor, "test")
                    found.setdefault(run.folder, run)
        return list(found.values())

    def tuning_runs(self, methods: Sequence[Method]) -> list[PretrainRun]:
        """Return the runs that choose the learning rates, as long as those that they serve.

        Known scores tell which factors are tried.
        """
        scores = self._scores()
        trained = [method for method in methods if method.trains and self.tunes]
        lengths = dict.fromkeys((m, self.epochs(m, each)) for m in trained for each in self.equal)
        return [
            self.run_of(method, epochs, seed, factor, "held-out")
            for method, epochs in lengths
            for seed in SEEDS
            for factor in factors_to_try(scores.get((method.key, epochs), {}))
        ]

    def run_of(
        self, method: Method, epochs: int, seed: int, factor: float, split: Split
    ) -> PretrainRun:
        """Return one run; ``factor`` is that of the learning rate."""
        images, setting = self.images[split], self.setting
        pace = self.paces.get(method.key)
        steps = epochs * (images.num_images // setting.batch_size)
        factor = factor if method.trains else 1.0
        folder = self.work_dir / _FOLDERS[split] / f"{_stem(method, epochs, factor)}{seed}"
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
            expected_s=_OVERHEAD_S + steps * (pace.seconds if pace else 0.0),
            inputs={**settings, **read, **source_of(method, setting.size)},
            settings=settings,
        )

    def table(self, equal: Equal) -> dict[str, list[PretrainResult]]:
        """Return the complete runs of one table by method, of all calls in this work dir."""
        found, choices = {}, self.choices
        for key, method in self.methods.items():
            for epochs in self._lengths(method, [equal]):
                factor = choices.get((key, epochs), 1.0)
                found[key] = self._results(method, epochs, factor, "test")
        return {key: own for key, own in found.items() if own}

    def tuning_results(self) -> list[PretrainResult]:
        """Return the complete runs that choose the learning rates of tables."""
        return [
            result
            for method in self.methods.values()
            if method.trains and self.tunes
            for epochs in self._lengths(method, self.equal)
            for factor in FACTORS
            for result in self._results(method, epochs, factor, "held-out")
            if result.seed in SEEDS
        ]

    def _results(
        self, method: Method, epochs: int, factor: float, split: Split
    ) -> list[PretrainResult]:
        """Return the complete runs that would be made with the same settings today, by seed."""
        stem = _stem(method, epochs, factor)
        folders = (self.work_dir / _FOLDERS[split]).glob(f"{glob.escape(stem)}*")
        numbers = (folder.name.removeprefix(stem) for folder in folders)
        seeds = sorted(int(number) for number in numbers if number.isdecimal())
        kept = [self.run_of(method, epochs, seed, factor, split).kept() for seed in seeds]
        names = PretrainResult.__dataclass_fields__
        asked = ("method", "seed", "epochs", "lr_factor")
        told = [each.values | {k: each.settings[k] for k in asked} for each in kept if each]
        return [PretrainResult(**{k: own[k] for k in names if k in own}) for own in told]

    def _lengths(self, method: Method, wanted: Sequence[Equal]) -> list[int]:
        """Return the lengths of a method's runs, without those that are not known or too short."""
        found = set()
        for equal in wanted:
            if equal == "epochs" or not method.trains or method.key in self.paces:
                try:
                    found.add(self.epochs(method, equal))
                except UserValueError:
                    continue
        return sorted(found)


def _stem(method: Method, epochs: int, factor: float) -> str:
    return f"{method.key}-{epochs}ep-lr{factor:.3g}-seed"
