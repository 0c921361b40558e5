"""The `compare` command: claim the work dir, plan, measure paces, tune, run and report."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Any

from ...console.wording import counted
from ...datasets.scenes.generate import generate_sample
from ...errors import UserValueError
from ...probing.data import read_masks
from ...version import __version__
from ..execute import Log, announce, execute_runs, jobs_of_machine, require_all
from ..experiment import Experiment
from ..options import ALL, CompareOptions, Equal, Size
from ..report import Files, write_files
from ..run import Run, RunOutcome, module_command
from .images import Split, TrainingImages, digests_of_splits, list_images, read_images
from .pace import Pace, epochs_for_equal
from .report import FACTORS, SEEDS, Length, Report, Result, choose, results_of
from .rows import SSPRL_ROW, Row, choose_rows
from .setting import (
    EPOCHS,
    IMAGE_PX,
    CompareSetting,
    batch_of,
    check_configs,
    check_images,
    digests_of_weights,
    recipe_digest,
    run_options,
)

_FOLDERS: dict[Split, str] = {"test": "runs", "held-out": "tuning"}
"""Folders of the runs in the work dir."""
_LOCATIONS = ("train_dataloader.dataset", "default_hooks.", "custom_hooks.")
"""Options that only locate files; no result depends on them."""
_OF_PACES = ("config", "size", "values", "teacher", "recipe", "options")
"""Inputs of a run that its pace depends on."""


class PretrainRun(Run):
    """The pre-training of one method with one seed, and its probe."""

    def summary(self, values: dict[str, Any]) -> str:
        """Return the scores, and a mark if the embeddings have collapsed."""
        mark = " (collapsed)" if values.get("collapsed") else ""
        regions = f", mIoU {100 * values['mIoU']:.1f} %" if "mIoU" in values else ""
        return f"mAP {100 * values['mAP']:.1f} %{regions}{mark}"


class Comparison(Experiment[PretrainRun]):
    """A comparison in its work dir; the options are checked before the work dir is claimed."""

    title = "a comparison"
    marker = "compare.json"

    def __init__(
        self, asked: CompareOptions, *, batch_size: int = 64, command: str = "", log: Log = print
    ) -> None:
        size: Size = asked.size or ("photos" if asked.data else "scenes")
        jobs = jobs_of_machine(asked.jobs)
        if not jobs.groups:  # CPU time is measured with one thread
            jobs = replace(jobs, threads=1)
        super().__init__(Path(asked.work_dir or f"work_dirs/compare_{size}"), jobs, log)

        self.asked = asked
        # After ``plan``, if there are any; by split and share.
        self._images: dict[tuple[Split, float], TrainingImages] = {}
        self.equal = [*dict.fromkeys(asked.equal)]
        self._command = command
        if asked.reference == ALL:
            raise UserValueError("--reference must be one method, but got all; name one of them.")
        rows, reference = choose_rows(asked.methods, asked.reference)
        self.methods = {row.key: row for row in rows}
        self.reference = reference.key
        data = Path(asked.data or self.work_dir / "scenes" / "coco").resolve()
        epochs = EPOCHS[size] if asked.epochs is None else asked.epochs
        self.setting = CompareSetting(size, data, epochs, batch_size)
        check_configs(self.setting, rows)

        self._digests: dict[str, dict[str, str]] = {}
        if asked.data:
            found = read_images(Path(asked.data), "test")
            self._digests = digests_of_splits(found)
            log(found.labelled.describe())
            read_masks(asked.data, found, log=log)

    def settings(self) -> dict[str, Any]:
        """Return size, data, length and batch; the user's own data are named, with digests."""
        data = self.asked.data and str(self.setting.data)
        tune = {"tune": True} if self.asked.tune else {}
        weights = digests_of_weights(self.setting, [*self.methods.values()])
        digests = {**self._digests, "weights": weights}
        return {**vars(self.setting), "data": data, **digests, **tune}

    def plan(self, *, writes: bool = True) -> None:
        """Claim the work dir, draw the scenes, and list the images of the runs if they exist."""
        super().plan(writes=writes)
        if writes and not self.asked.data:
            generate_sample(self.work_dir, self.log)
        if not self.setting.data.exists():
            return
        splits: list[Split] = ["test", "held-out"] if self.asked.tune else ["test"]
        for split in splits:
            for share in sorted({1.0, *(row.share for row in self.methods.values())}):
                self._images[split, share] = list_images(
                    self.work_dir / "lists", self.setting.data, split, share=share, writes=writes
                )
            for row in self.methods.values():
                check_images(self.setting, row, self.images_of(row, split))

    def images_of(self, row: Row, split: Split) -> TrainingImages:
        """Return the images that a row trains on."""
        return self._images[split, row.share]

    def run(self) -> int:
        """Measure the paces and tune if needed, do the missing runs, and report."""
        paces = self.pace_runs()
        if not all(run.is_complete for run in paces):
            announce("paces", paces, self.log)
            require_all("the paces", execute_runs(paces, replace(self.jobs, num=1), self.log))
        if tuning := self.tuning_runs():
            announce("tuning", tuning, self.log)
            done = execute_runs(
                tuning, self.jobs, self.log, lambda _: write_files(self.work_dir, self.tables())
            )
            require_all("the tuning", done)
        return super().run()

    def describe(self) -> None:
        """Log what ``run`` would do, as far as images and paces are known."""
        if not (self._images and all(run.is_complete for run in self.pace_runs())):
            self.log("runs: unknown until the paces are measured, as the command does")
            return
        if tuning := self.tuning_runs():
            announce("tuning", tuning, self.log, each=True)
        super().describe()

    def report(self) -> Report:
        """Return the complete runs of this call, whenever they were done."""
        tables: dict[Equal, dict[str, list[Result]]] = {}
        for equal, runs in self.final_runs().items():
            found = results_of(runs)
            tables[equal] = {}
            for key in self.methods:
                own = [each for each in found if each["method"] == key]
                if own:
                    tables[equal][key] = own
        return Report(
            self.methods,
            self.setting.size,
            self.pace,
            tables,
            self.reference,
            results_of(self.tuning_runs()),
            self.choices(),
            self._command,
        )

    def pace_run(self, method: Row) -> Run:
        """Return the run that times a method and SS-PRL."""
        setting = self.setting
        images = self._images["test", 1.0]
        measured = {}
        for each in (SSPRL_ROW, method):
            inputs = self.run_of(each, setting.epochs, 0, 1.0, "test").inputs or {}
            measured[each.key] = {k: inputs[k] for k in _OF_PACES if k in inputs}
        settings = {
            "recipes": {key: each["recipe"] for key, each in measured.items()},
            "version": __version__,
            "images": images.digest,
            "batch_size": setting.batch_size,
        }
        steps = self.asked.seeds * setting.epochs * (images.num_images // setting.batch_size)
        folder = self.work_dir / "paces" / method.key
        return Run(
            name=f"pace of {method.title}",
            folder=folder,
            commands=(module_command(f"{__package__}.pace", folder),),
            inputs={"methods": measured, "run_steps": steps, **settings},
            settings=settings,
        )

    def pace(self, method: Row) -> Pace | None:
        """Return the pace of a method; None if it has not been measured."""
        kept = self.pace_run(method).kept() if method.trains and self._images else None
        return kept.values if kept else None

    def pace_runs(self) -> list[Run]:
        """Return the runs that measure the paces; tables of equal epochs need none."""
        needed = self._images and {*self.equal} != {"epochs"}
        rows = [row for row in self.methods.values() if row.trains and row.epochs is None]
        return [self.pace_run(row) for row in rows if needed]

    def epochs(self, method: Row, equal: Equal) -> int:
        """Return the length of a row's runs: its own, or as is equal; 0 if it does not train."""
        if method.epochs is not None:
            return method.epochs if method.trains else 0
        if equal == "epochs" or not method.trains:
            return self.setting.epochs if method.trains else 0
        num_images = self._images["test", 1.0].num_images
        steps = num_images // batch_of(self.setting, method)
        of_ssprl = num_images // self.setting.batch_size
        pace = self.pace(method) or {}
        return epochs_for_equal(equal, self.setting.epochs, pace, method.key, steps, of_ssprl)

    def choices(self) -> dict[Length, float]:
        """Return the factor of each learning rate, where the tuning is complete."""
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
            found[equal] = []
            for seed, (method, epochs) in product(range(self.asked.seeds), lengths):
                factor = choices.get((method.key, epochs), 1.0)
                found[equal].append(self.run_of(method, epochs, seed, factor, "test"))
        return found

    def tuning_runs(self) -> list[PretrainRun]:
        """Return the runs that choose the learning rate for each length; none without tuning."""
        if ("held-out", 1.0) not in self._images:
            return []
        combinations = product(self.methods.values(), self.equal)
        lengths = dict.fromkeys((m, self.epochs(m, each)) for m, each in combinations if m.trains)
        return [
            self.run_of(method, epochs, seed, factor, "held-out")
            for (method, epochs), seed, factor in product(lengths, SEEDS, FACTORS)
        ]

    def run_of(
        self, method: Row, epochs: int, seed: int, factor: float, split: Split
    ) -> PretrainRun:
        """Return one run; ``factor`` multiplies the learning rate."""
        setting = self.setting
        images = self.images_of(method, split)
        name = f"{method.key}-{epochs}ep-lr{factor:.3g}-seed{seed}"
        folder = self.work_dir / _FOLDERS[split] / name
        rate = "" if factor == 1 else f", lr x {factor:.3g}"
        length = f", {counted(epochs, 'epoch')}" if method.trains else ""
        numbers: dict[str, Any] = {"seed": seed, "epochs": epochs, "lr_factor": factor}
        options = run_options(setting, method, images=images, **numbers)
        settings = {
            "method": method.key,
            **numbers,
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
            "config": str(method.method.config_file()),
            "size": None if method.method.is_users else setting.size,
        }
        if method.differs:
            read |= {"values": dict(method.values), "teacher": method.teacher}
        return PretrainRun(
            name=f"{method.title}{length}{rate}, seed {seed}",
            folder=folder,
            commands=(module_command(f"{__package__}.training", folder),),
            inputs={**settings, **read},
            settings=settings,
        )

    def runs(self) -> list[PretrainRun]:
        """Return the runs of all tables, each once, seed after seed."""
        tables = self.final_runs().values()
        found = {run.folder: run for run in chain(*tables)}
        return sorted(found.values(), key=lambda run: run.settings["seed"])

    def tables(self, outcomes: Mapping[PretrainRun, RunOutcome] | None = None) -> Files:
        """Return all tables, from the result files of the runs."""
        return self.report().files()
