"""The `compare` command: claim the work dir, plan, measure paces, tune, run and report."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from ...console.wording import counted
from ...datasets.scenes.generate import generate_sample
from ...errors import UserValueError
from ...probing.data import read_masks
from ...runs.work_dirs import claim
from ...version import __version__
from ..execute import Log, announce, execute_runs, jobs_of_machine, require_all, run_all
from ..options import ALL, CompareOptions, Equal, Size
from ..report import Files, write_files
from ..run import Run, RunOutcome, module_command
from .images import Split, TrainingImages, list_images, read_images
from .pace import Pace, epochs_for_equal
from .report import FACTORS, SEEDS, Length, Report, choose, results_of
from .rows import SSPRL_ROW, Row, choose_rows
from .setting import (
    EPOCHS,
    IMAGE_PX,
    CompareSetting,
    check_configs,
    check_images,
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


class Comparison:
    """A comparison in its work dir; the options are checked before the work dir is claimed."""

    def __init__(
        self, asked: CompareOptions, *, batch_size: int = 64, command: str = "", log: Log = print
    ) -> None:
        self.asked, self._command, self._log = asked, command, log
        self.equal = [*dict.fromkeys(asked.equal)]
        self.num_seeds = asked.seeds
        size: Size = asked.size or ("photos" if asked.data else "scenes")
        self.work_dir = Path(asked.work_dir or f"work_dirs/compare_{size}")
        if asked.reference == ALL:
            raise UserValueError("--reference must be one method, but got all; name one of them.")
        rows, reference = choose_rows(asked.methods, asked.reference)
        self.methods = {row.key: row for row in rows}
        self.reference = reference.key
        self._of_shares: dict[tuple[Split, float], TrainingImages] = {}
        data = Path(asked.data or self.work_dir / "scenes" / "coco").resolve()
        epochs = EPOCHS[size] if asked.epochs is None else asked.epochs
        self.setting = CompareSetting(size, data, epochs, batch_size)
        check_configs(self.setting, rows)
        if asked.data:
            found = read_images(Path(asked.data), "test")
            log(found.labelled.describe())
            read_masks(asked.data, found, log=log)
        jobs = jobs_of_machine(asked.jobs)
        # CPU time is measured with one thread.
        self._jobs = jobs if jobs.groups else replace(jobs, threads=1)

    @cached_property
    def images(self) -> dict[Split, TrainingImages]:
        """The images of the runs, if they exist; the work dir is claimed for them."""
        asked, setting = self.asked, self.setting
        data, writes = setting.data, not asked.dry_run
        if writes:
            shared = {**vars(setting), "data": asked.data and str(data)}
            shared |= {"tune": True} if asked.tune else {}
            claim(self.work_dir, "compare.json", "a comparison", shared)
            if not asked.data:
                generate_sample(self.work_dir, self._log)
        splits: list[Split] = ["test", "held-out"] if asked.tune else ["test"]
        images: dict[Split, TrainingImages] = {}
        for split in splits if data.exists() else ():
            images[split] = list_images(self.work_dir / "lists", data, split, writes=writes)
            for row in self.methods.values():
                own = images[split] if row.share == 1 else self._share_of_images(split, row.share)
                check_images(setting, row, own)
        return images

    def images_of(self, row: Row, split: Split) -> TrainingImages:
        """Return the images that a row trains on."""
        return self.images[split] if row.share == 1 else self._share_of_images(split, row.share)

    def _share_of_images(self, split: Split, share: float) -> TrainingImages:
        """List a share of the images, once."""
        key = (split, share)
        if key not in self._of_shares:
            folder = self.work_dir / "lists"
            writes = not self.asked.dry_run
            found = list_images(folder, self.setting.data, split, share=share, writes=writes)
            self._of_shares[key] = found
        return self._of_shares[key]

    def run(self) -> int:
        """Do what is missing, then report; return how many runs have failed."""
        paces = self.pace_runs()
        if not all(run.is_complete for run in paces):
            announce("paces", paces, self._log)
            require_all("the paces", execute_runs(paces, replace(self._jobs, num=1), self._log))
        if tuning := self.tuning_runs():
            announce("tuning", tuning, self._log)
            done = execute_runs(
                tuning, self._jobs, self._log, lambda _: write_files(self.work_dir, self._files())
            )
            require_all("the tuning", done)
        return run_all("runs", self._runs(), self._jobs, self._log, self._files, self.work_dir)

    def describe(self) -> None:
        """Log what ``run`` would do, as far as images and paces are known."""
        if not (self.images and all(run.is_complete for run in self.pace_runs())):
            self._log("runs: unknown until the paces are measured, as the command does")
            return
        if tuning := self.tuning_runs():
            announce("tuning", tuning, self._log, each=True)
        announce("runs", self._runs(), self._log, each=True)

    def report(self) -> Report:
        """Return the complete runs of this call, whenever they were done."""
        tables = {}
        for equal, runs in self.final_runs().items():
            found = results_of(runs)
            own = {key: [each for each in found if each["method"] == key] for key in self.methods}
            tables[equal] = {key: results for key, results in own.items() if results}
        about = (self.methods, self.setting.size, self.pace)
        tuning, choices = results_of(self.tuning_runs()), self.choices()
        return Report(*about, tables, self.reference, tuning, choices, self._command)

    def pace_run(self, method: Row) -> Run:
        """Return the run that times a method and SS-PRL."""
        setting, images = self.setting, self.images["test"]
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
        steps = self.num_seeds * setting.epochs * (images.num_images // setting.batch_size)
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
        kept = self.pace_run(method).kept() if method.trains and self.images else None
        return kept.values if kept else None

    def pace_runs(self) -> list[Run]:
        """Return the runs that measure the paces; tables of equal epochs need none."""
        needed = self.images and {*self.equal} != {"epochs"}
        rows = [row for row in self.methods.values() if row.trains and row.epochs is None]
        return [self.pace_run(row) for row in rows if needed]

    def epochs(self, method: Row, equal: Equal) -> int:
        """Return the length of a row's runs: its own, or as is equal; 0 if it does not train."""
        if method.epochs is not None:
            return method.epochs if method.trains else 0
        if equal == "epochs" or not method.trains:
            return self.setting.epochs if method.trains else 0
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
        images, setting = self.images_of(method, split), self.setting
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

    def _runs(self) -> list[PretrainRun]:
        """Return the runs of all tables, each once, seed after seed."""
        tables = self.final_runs().values()
        found = {run.folder: run for runs in tables for run in runs}
        return sorted(found.values(), key=lambda run: run.settings["seed"])

    def _files(self, *_: Mapping[PretrainRun, RunOutcome]) -> Files:
        """Return all tables, from the result files of the runs."""
        return self.report().files()
