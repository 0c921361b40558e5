"""Which runs a comparison needs: methods, seeds and lengths, finally and while tuning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ...console.wording import counted
from ...pretraining.methods import BY_KEY, Method
from .images import Split, TrainingImages
from .paces import MethodPace, epochs_for_equal
from .run import PretrainRun, module_command
from .setting import CompareSetting, code_digest, common_options, recipe_digest
from .tuning import SEEDS, Choice, Scores, factors_to_try

Budget = Literal["epochs", "time", "flops"]
BUDGETS: dict[Budget, str] = {
    "epochs": "Equal epochs",
    "time": "Equal time",
    "flops": "Equal FLOPs",
}
Length = tuple[str, int]
"""Key of a method, and epochs: what a learning rate is chosen for."""
MAX_SEEDS = SEEDS[0]
FOLDERS: dict[Split, str] = {"test": "runs", "held-out": "tuning"}
"""Of the runs, in the work dir."""
OVERHEAD_S = 30.0
"""Of a run: starting its process, and the probe. For the estimate before anything has run."""


@dataclass(frozen=True)
class Planner:
    """Makes the runs of one work dir.

    Args:
        work_dir: Folder of all runs.
        setting: Of all runs.
        paces: By method; at least of those that are planned for equal time or FLOPs.
        images: That are trained on, by split.
        methods: Rows that a table may have, by key and in their order.
        split: Of the runs of the tables. On held-out images they have the seeds of the tuning, so
            that what is chosen by them is not chosen by the seeds that the test images score.
    """

    work_dir: Path
    setting: CompareSetting
    paces: Mapping[str, MethodPace]
    images: Mapping[Split, TrainingImages]
    methods: Mapping[str, Method] = field(default_factory=lambda: BY_KEY)
    split: Split = "test"

    def epochs(self, method: Method, budget: Budget) -> int:
        """Return the length of a method's runs.

        Args:
            method: 0 if it does not train.
            budget: What is equal.

        Raises:
            ValueError: Less than one epoch in equal time or FLOPs.
        """
        if not method.trains:
            return 0
        if budget == "epochs":
            return self.setting.epochs
        return epochs_for_equal(budget, self.setting.epochs, self.paces[method.key], method)

    def final_runs(
        self,
        methods: Sequence[Method],
        num_seeds: int,
        budgets: Sequence[Budget],
        choices: Mapping[Length, Choice],
    ) -> list[PretrainRun]:
        """Return the runs of the tables, seed after seed, so that all methods grow together.

        Args:
            methods: Rows.
            num_seeds: Of each.
            budgets: Tables. A run that is of several is there once.
            choices: Of the learning rates.
        """
        found: dict[Path, PretrainRun] = {}
        first = MAX_SEEDS if self.split == "held-out" else 0
        for seed in range(first, first + num_seeds):
            for budget in budgets:
                for method in methods:
                    epochs = self.epochs(method, budget)
                    factor = taken_factor(choices, (method.key, epochs))
                    run = self.run_of(method, epochs, seed, factor, self.split)
                    found.setdefault(run.folder, run)
        return list(found.values())

    def tuning_runs(
        self,
        methods: Sequence[Method],
        budgets: Sequence[Budget],
        scores: Mapping[Length, Scores],
    ) -> list[PretrainRun]:
        """Return the runs that choose the learning rates, as long as those that they serve.

        Args:
            methods: Rows.
            budgets: Tables. Runs of equal length are there once.
            scores: That are known; they tell which factors are tried.
        """
        trained = [method for method in methods if method.trains]
        lengths = dict.fromkeys((m, self.epochs(m, budget)) for m in trained for budget in budgets)
        return [
            self.run_of(method, epochs, seed, factor, "held-out")
            for method, epochs in lengths
            for seed in SEEDS
            for factor in factors_to_try(scores.get((method.key, epochs), {}))
        ]

    def run_of(
        self, method: Method, epochs: int, seed: int, factor: float, split: Split
    ) -> PretrainRun:
        """Return one run; arguments as for ``PretrainRun``, ``factor`` of the learning rate."""
        images = self.images[split]
        pace = self.paces.get(method.key)
        steps = epochs * (images.num_images // self.setting.batch_size)
        if not method.trains:
            factor = 1.0
        parts = [method.key, f"{epochs}ep", f"lr{factor:.3g}", f"seed{seed}"]
        folder = self.work_dir / FOLDERS[split] / "-".join(parts)
        rate = "" if factor == 1 else f", lr x {factor:.3g}"
        length = f", {counted(epochs, 'epoch')}" if method.trains else ""
        return PretrainRun(
            name=f"{method.title}{length}{rate}, seed {seed}",
            kind=f"{method.key} {epochs}",
            folder=folder,
            expected_s=OVERHEAD_S + steps * (pace.seconds if pace else 0.0),
            commands=(module_command("training", folder),),
            method=method,
            seed=seed,
            epochs=epochs,
            lr_factor=factor,
            split=split,
            config=method.config_file(self.setting.size),
            options=common_options(
                self.setting, method, images=images, epochs=epochs, seed=seed, lr_factor=factor
            )
            if method.trains
            else {},
            data=self.setting.data,
            image_px=self.setting.image_px,
            digests={
                "recipe": recipe_digest(self.setting, method),
                "code": code_digest(),
                "images": images.digest,
            },
        )


def taken_factor(choices: Mapping[Length, Choice], length: Length) -> float:
    """Return the factor of the learning rate of some runs, 1 where none was chosen."""
    choice = choices.get(length)
    return choice.taken if choice else 1.0
