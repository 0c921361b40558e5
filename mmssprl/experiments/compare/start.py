"""The `compare` command: claim the work dir, measure paces, tune, run and report."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from ...datasets.scenes.generate import generate_sample
from ...errors import UserValueError
from ...probing.data import read_masks
from ...work_dirs import claim
from ..execute import Log, announce, execute_runs, jobs_of_machine, require_all, run_all
from ..options import CompareOptions, Size
from ..report import Files, write_files
from ..run import RunOutcome
from .images import Split, list_images, read_images
from .methods import choose_methods
from .plan import Planner, PretrainRun, results_of
from .report import Report
from .setting import EPOCHS, CompareSetting, check_configs, check_images


class Comparison:
    """A comparison in its work dir; the options are checked before the work dir is claimed.

    ``batch_size`` is in images per step; ``command`` is the command line, for the report.
    """

    def __init__(
        self, asked: CompareOptions, *, batch_size: int = 64, command: str = "", log: Log = print
    ) -> None:
        self.asked, self._command, self._log = asked, command, log
        size: Size = asked.size or ("photos" if asked.data else "scenes")
        self.work_dir = Path(asked.work_dir or f"work_dirs/compare_{size}")
        reference, *others = choose_methods([asked.reference])
        if others:
            raise UserValueError(
                f"--reference must be one method, but got {asked.reference}; name one of them."
            )
        methods = choose_methods([*asked.methods, asked.reference])
        self.methods = {method.key: method for method in methods}
        self.reference = reference.key
        data = Path(asked.data or self.work_dir / "scenes" / "coco").resolve()
        epochs = EPOCHS[size] if asked.epochs is None else asked.epochs
        self._setting = CompareSetting(size, data, epochs, batch_size)
        check_configs(self._setting, methods)
        if asked.data:
            found = read_images(Path(asked.data), "test")
            log(found.labelled.describe())
            read_masks(asked.data, found, log=log)
        jobs = jobs_of_machine(asked.jobs)
        # CPU time is measured with one thread.
        self._jobs = jobs if jobs.groups else replace(jobs, threads=1)

    @cached_property
    def planner(self) -> Planner:
        """The planner of the runs; the work dir is claimed for it."""
        asked, setting = self.asked, self._setting
        data, writes = setting.data, not asked.dry_run
        if writes:
            shared = {
                "data": asked.data and str(data),
                "size": setting.size,
                "epochs": setting.epochs,
                "batch_size": setting.batch_size,
                **({"tune": True} if asked.tune else {}),
            }
            claim(self.work_dir, "compare.json", "a comparison", shared)
            if not asked.data:
                generate_sample(self.work_dir, self._log)
        splits: list[Split] = ["test", "held-out"] if asked.tune else ["test"]
        images = {
            each: list_images(self.work_dir / "lists", data, each, writes=writes)
            for each in splits
            if data.exists()
        }
        for listed in images.values():
            check_images(setting, [*self.methods.values()], listed)
        equal = [*dict.fromkeys(asked.equal)]
        return Planner(self.work_dir, setting, images, self.methods, equal, asked.seeds)

    def run(self) -> int:
        """Do what is missing, then report; return how many runs have failed."""
        paces = self.planner.pace_runs()
        if not all(run.is_complete for run in paces):
            announce("paces", paces, self._log)
            require_all("the paces", execute_runs(paces, replace(self._jobs, num=1), self._log))
        if tuning := self.planner.tuning_runs():
            announce("tuning", tuning, self._log)
            done = execute_runs(
                tuning, self._jobs, self._log, lambda _: write_files(self.work_dir, self._files())
            )
            require_all("the tuning", done)
        return run_all("runs", self._runs(), self._jobs, self._log, self._files, self.work_dir)

    def describe(self) -> None:
        """Log what ``run`` would do, as far as images and paces are known."""
        if not (self.planner.images and all(run.is_complete for run in self.planner.pace_runs())):
            self._log("runs: unknown until the paces are measured, as the command does")
            return
        if self.asked.tune:
            announce("tuning", self.planner.tuning_runs(), self._log, each=True)
        announce("runs", self._runs(), self._log, each=True)

    def report(self) -> Report:
        """Return the complete runs of this call, whenever they were done."""
        tables = {}
        for equal, runs in self.planner.final_runs().items():
            found = results_of(runs)
            own = {key: [each for each in found if each["method"] == key] for key in self.methods}
            tables[equal] = {key: results for key, results in own.items() if results}
        tuning, choices = results_of(self.planner.tuning_runs()), self.planner.choices()
        return Report(self.planner, tables, self.reference, tuning, choices, self._command)

    def _runs(self) -> list[PretrainRun]:
        """Return the runs of all tables, each once, seed after seed."""
        tables = self.planner.final_runs().values()
        found = {run.folder: run for runs in tables for run in runs}
        return sorted(found.values(), key=lambda run: run.settings["seed"])

    def _files(self, *_: Mapping[PretrainRun, RunOutcome]) -> Files:
        """Return all tables, from the result files of the runs."""
        return self.report().files()
