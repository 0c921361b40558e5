"""The whole command: take the work dir, measure the paces, tune, run, and report."""

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...datasets.scenes.generate import generate_sample
from ...errors import UserValueError
from ...pretraining.methods import BY_KEY
from ...system.environment import describe_machine
from ..execute import Jobs, Log, announce, execute_runs, require_all
from ..run import Run, RunOutcome
from ..work_dir import joined, read_marker, write_marker
from .images import Split, TrainingImages, list_images, read_images, read_masks
from .methods import choose_methods
from .pace import ROUNDS, SECONDS, STEPS, plan_paces, read_paces
from .plan import MAX_SEEDS, Budget, Planner
from .report import Report
from .setting import BATCH_SIZE, EPOCHS, CompareSetting, Size, check_configs, check_images

MARKER = "compare.json"
_OF_PACES = ("data", "batch_size")
"""Settings that a measured pace depends on, beside the config that it names."""
_REPORT_S = 5.0
"""Least time between two reports while runs end."""


@dataclass(frozen=True)
class Request:
    """What a call asks for: the options of the command.

    ``words`` are methods and groups of them, ``reference`` the method that the others are compared
    with. None of ``data`` generates the scenes, None of ``epochs`` takes the size's. ``command`` is
    what was typed, for the foot of the tables.
    """

    work_dir: Path
    words: Sequence[str]
    reference: str
    num_seeds: int
    budgets: Sequence[Budget]
    data: Path | None
    size: Size
    epochs: int | None = None
    batch_size: int = BATCH_SIZE
    tune: bool = False
    held_out: bool = False
    jobs: Jobs = Jobs()
    command: str = ""
    dry_run: bool = False


class Comparison:
    """A comparison in its work dir, claimed and checked before any training."""

    def __init__(self, request: Request, log: Log = print) -> None:
        self.request, self._log = request, log
        self._start = time.perf_counter()
        writes = not request.dry_run
        epochs = EPOCHS[request.size] if request.epochs is None else request.epochs
        if not 1 <= request.num_seeds <= MAX_SEEDS:
            raise UserValueError(
                f"--seeds must be from 1 to {MAX_SEEDS}, beyond which the tuning's begin, but got "
                f"{request.num_seeds}."
            )
        if epochs < 1:
            raise UserValueError(f"--epochs must be at least 1, but got {epochs}.")
        reference, *others = choose_methods([request.reference])
        if others:
            raise UserValueError(
                f"--reference must be one method, but {request.reference} are "
                f"{1 + len(others)}; name one of them, such as {others[-1].key}."
            )
        self.methods = choose_methods([*request.words, request.reference])
        self.reference = reference.key
        data = None if request.data is None else request.data.resolve()
        if data is not None:
            found = read_images(data, "test")
            log(found.labelled.describe())
            read_masks(data, found, log)
        common = {
            "data": data and str(data),
            "size": request.size,
            "epochs": epochs,
            "batch_size": request.batch_size,
        }
        for name in ("tune", "held_out"):  # not there otherwise, as in dirs of former versions
            if getattr(request, name):
                common[name] = True
        claim(request.work_dir, common, writes=writes)
        if data is None:
            if writes:
                generate_sample(request.work_dir, log)
            data = (request.work_dir / "scenes" / "coco").resolve()
        setting = CompareSetting(request.size, data, epochs, request.batch_size)
        check_configs(setting, self.methods)
        split: Split = "held-out" if request.held_out else "test"
        images: dict[Split, TrainingImages] = {}
        also: list[Split] = ["held-out"] * request.tune
        for each in dict.fromkeys([split, *also]) if data.exists() else ():
            images[each] = list_images(request.work_dir / "lists", data, each, writes=writes)
            check_images(setting, self.methods, images[each])
        rows = {**BY_KEY, **{method.key: method for method in self.methods}}
        paces = read_paces(request.work_dir, setting, rows)
        given = (request.work_dir, setting, paces, images, rows, split)
        self.planner = Planner(*given, request.budgets, request.tune)

    def run(self) -> int:
        """Do what is missing, then report; return how many runs have failed."""
        pace = self._pace_run()
        if pace:
            self._log(
                f"{pace.name}, {ROUNDS} turns of {STEPS} steps or {SECONDS:.0f} s each; "
                f"{pace.log_file} tells of every turn"
            )
            require_all("the paces", self._execute([pace]))
            planner = self.planner
            paces = read_paces(planner.work_dir, planner.setting, planner.methods)
            self.planner = replace(planner, paces=paces)
        for method in self.methods:  # a budget below one epoch is told before any training
            [self.planner.epochs(method, budget) for budget in self.request.budgets]
        tuning = self.planner.tuning_runs(self.methods)
        while not all(run.is_complete for run in tuning):  # the best rate may ask for more
            announce("tuning", tuning, self.request.jobs, self._log)
            require_all("the runs that choose the learning rates", self._execute(tuning))
            tuning = self.planner.tuning_runs(self.methods)
        runs = self.planner.final_runs(self.methods, self.request.num_seeds)
        announce("runs", runs, self.request.jobs, self._log)
        outcomes = self._execute(runs)
        report = self.report()
        files = report.write(self.request.work_dir)
        self._log(f"\n{report.text()}\n")
        self._log(f"all runs, tables, picture: {self.request.work_dir}/{{{','.join(files)}}}")
        return sum(bool(outcome.reason) for outcome in outcomes)

    def describe(self) -> None:
        """Log what ``run`` would do, as far as images and paces are known."""
        if not self.planner.images or self._pace_run():
            self._log("time of the runs: unknown until the paces are measured, as the command does")
            return
        planned = {"tuning": self.planner.tuning_runs(self.methods)} if self.planner.tunes else {}
        planned["runs"] = self.planner.final_runs(self.methods, self.request.num_seeds)
        for what, runs in planned.items():
            announce(what, runs, self.request.jobs, self._log, each=True)

    def report(self) -> Report:
        """Return what all calls in this work dir have found; of users' configs, the named ones'."""
        planner = self.planner
        machine = next((p.machine for p in planner.paces.values()), describe_machine("cpu"))
        day = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        minutes = (time.perf_counter() - self._start) / 60
        return Report(
            planner,
            {budget: planner.table(budget) for budget in planner.budgets},
            self.reference,
            planner.tuning_results(),
            planner.choices,
            f"`{self.request.command}`, {machine}, {day}, {minutes:.0f} min of the last call.",
        )

    def _pace_run(self) -> Run | None:
        planner = self.planner
        images = planner.images[planner.split]
        return plan_paces(planner.work_dir, planner.setting, self.methods, images, planner.paces)

    def _execute(self, runs: Sequence[Run]) -> list[RunOutcome]:
        written_s = -_REPORT_S

        def told(line: str) -> None:
            nonlocal written_s
            self._log(line)
            # A call that goes on tells of all complete runs at once: one report of them is enough.
            if time.perf_counter() - written_s > _REPORT_S:
                self.report().write(self.request.work_dir)
                written_s = time.perf_counter()

        return execute_runs(runs, self.request.jobs, told)


def claim(work_dir: Path, settings: dict[str, Any], *, writes: bool = True) -> None:
    """Take an unused folder, or go on in one of the same settings.

    One in which nothing has been trained yet takes other settings: a first call that was refused
    must not stand in the way of the one that corrects it.
    """
    before = read_marker(work_dir, MARKER, "a comparison")
    if before is not None:
        if any(work_dir.glob("runs/*")) or any(work_dir.glob("tuning/*")):
            joined(work_dir, before, settings)
        elif writes and any(before.get(key) != settings.get(key) for key in _OF_PACES):
            shutil.rmtree(work_dir / "paces", ignore_errors=True)
    if writes:
        write_marker(work_dir, MARKER, settings)
