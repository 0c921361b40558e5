"""The runs of a comparison: one for each method, seed and length, and those of the tuning."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, variance
from typing import Any

from ...console.wording import counted
from ...pretraining.methods import SSPRL, Method
from ...version import __version__
from ..options import Equal
from ..run import Run, module_command
from .images import Split, TrainingImages
from .pace import Pace, epochs_for_equal
from .setting import IMAGE_PX, CompareSetting, common_options, recipe_digest

TITLES: dict[Equal, str] = {"epochs": "Equal epochs", "time": "Equal time", "flops": "Equal FLOPs"}
FACTORS = (1 / 3, 1.0, 3.0)
"""Learning rates that the tuning tries, as factors of the config's."""
SEEDS = (1000, 1001, 1002)
"""Seeds of the tuning; those of the final runs count from 0."""
Length = tuple[str, int]
"""Key of a method, and epochs; each length has its own learning rate."""
_FOLDERS: dict[Split, str] = {"test": "runs", "held-out": "tuning"}
"""Folders of the runs in the work dir."""
_LOCATIONS = ("train_dataloader.dataset", "default_hooks.", "custom_hooks.")
"""Options that only locate files; no result depends on them."""

Result = Mapping[str, Any]
"""Options and measurements of a run by ``COLUMNS``."""
_ASKED = ("method", "seed", "epochs", "lr_factor")
COLUMNS = (
    *(*_ASKED, "mAP", "chance_mAP", "mIoU", "chance_mIoU", "steps", "images", "seconds"),
    *("loss", "embedding_spread", "collapsed", "commit"),
)
"""Columns of ``results.csv``. mAP and mIoU are in [0, 1], mIoU is None without masks. ``seconds``
of the pre-training are CPU time on a CPU, else wall time. ``loss`` and ``embedding_spread``
(``training.SPREAD``) are means over the last epoch, at most 1,000 steps."""
_DEFAULTS = {"steps": 0, "images": 0, "seconds": 0.0, "collapsed": False}
"""Results of a method that does not train."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PretrainRun(Run):
    """The pre-training of one method with one seed, and its probe."""

    inputs: Mapping[str, Any]

    def summary(self, values: dict[str, Any]) -> str:
        """Return the scores, and a mark if the embeddings have collapsed."""
        mark = " (collapsed)" if values.get("collapsed") else ""
        regions = f", mIoU {100 * values['mIoU']:.1f} %" if "mIoU" in values else ""
        return f"mAP {100 * values['mAP']:.1f} %{regions}{mark}"


def results_of(runs: Iterable[PretrainRun]) -> list[Result]:
    """Return the results of the complete runs."""
    kept = [outcome for run in runs if (outcome := run.kept())]
    found = [{**_DEFAULTS, **each.values} | {k: each.settings[k] for k in _ASKED} for each in kept]
    return [{name: each.get(name) for name in COLUMNS} for each in found]


def choose(scores: Mapping[float, Sequence[float]]) -> float | None:
    """Return the best factor of a learning rate; None before every factor has all seeds.

    It is 1 if the lead of the best over 1 is below its standard error. ``scores`` are mAP in [0, 1]
    over the seeds, by factor.
    """
    if not all(len(scores.get(factor, ())) == len(SEEDS) for factor in FACTORS):
        return None
    best = max(FACTORS, key=lambda factor: fmean(scores[factor]))
    lead = fmean(scores[best]) - fmean(scores[1.0])
    error = math.sqrt((variance(scores[best]) + variance(scores[1.0])) / len(SEEDS))
    return best if lead and lead >= error else 1.0


@dataclass(frozen=True)
class Planner:
    """Plans the runs of one work dir.

    ``methods`` are the rows of the tables, in order; there is a table for each of ``equal``.
    """

    work_dir: Path
    setting: CompareSetting
    images: Mapping[Split, TrainingImages]
    methods: Mapping[str, Method]
    equal: Sequence[Equal]
    num_seeds: int

    def pace_run(self, method: Method) -> Run:
        """Return the run that times a method and SS-PRL."""
        setting, images = self.setting, self.images["test"]
        measured = {}
        for each in (SSPRL, method):
            inputs = self.run_of(each, setting.epochs, 0, 1.0, "test").inputs
            names = ("config", "size", "recipe", "options")
            measured[each.key] = {name: inputs[name] for name in names}
        settings = {
            "recipes": {key: each["recipe"] for key, each in measured.items()},
            "version": __version__,
            "images": images.digest,
            "batch_size": setting.batch_size,
        }
        steps = self.num_seeds * setting.epochs * (images.num_images // setting.batch_size)
        folder = self.work_dir / "paces" / method.key
        return Run(
            name=f"pace of {method.title}",
            folder=folder,
            commands=(module_command(f"{__package__}.pace", folder),),
            inputs={"methods": measured, "run_steps": steps, **settings},
            settings=settings,
        )

    def pace(self, method: Method) -> Pace | None:
        """Return the pace of a method; None if it has not been measured."""
        kept = self.pace_run(method).kept() if method.trains and self.images else None
        return kept.values if kept else None

    def pace_runs(self) -> list[Run]:
        """Return the runs that measure the paces; tables of equal epochs need none."""
        needed = self.images and {*self.equal} != {"epochs"}
        return [self.pace_run(each) for each in self.methods.values() if needed and each.trains]

    def epochs(self, method: Method, equal: Equal) -> int:
        """Return the length of a method's runs, 0 if it does not train.

        Raises:
            ValueError: The length is below one epoch.
        """
        if not method.trains:
            return 0
        if equal == "epochs":
            return self.setting.epochs
        steps = self.images["test"].num_images // self.setting.batch_size
        pace = self.pace(method) or {}
        return epochs_for_equal(equal, self.setting.epochs, pace, method.key, steps)

    def choices(self) -> dict[Length, float]:
        """Return the factors of the learning rates whose tuning is complete."""
        scores: dict[Length, dict[float, list[float]]] = {}
        for each in results_of(self.tuning_runs()):
            own = scores.setdefault((each["method"], each["epochs"]), {})
            own.setdefault(each["lr_factor"], []).append(each["mAP"])
        return {length: factor for length, own in scores.items() if (factor := choose(own))}

    def final_runs(self) -> dict[Equal, list[PretrainRun]]:
        """Return the runs of each table, seed after seed, with the tuned learning rates."""
        choices = self.choices()
        found: dict[Equal, list[PretrainRun]] = {}
        for equal in self.equal:
            lengths = [(method, self.epochs(method, equal)) for method in self.methods.values()]
            found[equal] = [
                self.run_of(method, epochs, seed, choices.get((method.key, epochs), 1.0), "test")
                for seed in range(self.num_seeds)
                for method, epochs in lengths
            ]
        return found

    def tuning_runs(self) -> list[PretrainRun]:
        """Return the runs that choose the learning rate for each length; none without tuning."""
        if "held-out" not in self.images:
            return []
        trained = [method for method in self.methods.values() if method.trains]
        lengths = dict.fromkeys((m, self.epochs(m, each)) for m in trained for each in self.equal)
        return [
            self.run_of(method, epochs, seed, factor, "held-out")
            for method, epochs in lengths
            for seed in SEEDS
            for factor in FACTORS
        ]

    def run_of(
        self, method: Method, epochs: int, seed: int, factor: float, split: Split
    ) -> PretrainRun:
        """Return one run; ``factor`` multiplies the learning rate."""
        images, setting = self.images[split], self.setting
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
            "options": {k: v for k, v in options.items() if not k.startswith(_LOCATIONS)},
            "recipe": recipe_digest(setting, method),
            "version": __version__,
            "images": images.digest,
            "image_px": IMAGE_PX[setting.size],
        }
        read = {
            "trains": method.trains,
            "options": options,
            "data": str(setting.data),
            "config": str(method.config_file()),
            "size": None if method.is_users else setting.size,
        }
        return PretrainRun(
            name=f"{method.title}{length}{rate}, seed {seed}",
            folder=folder,
            commands=(module_command(f"{__package__}.training", folder),),
            inputs={**settings, **read},
            settings=settings,
        )
