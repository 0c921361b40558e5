"""The whole command: take the work dir, measure the paces, tune, run, and report."""

import shutil
import time
from collections import defaultdict
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
from .images import Split, TrainingImages, list_images, read_images
from .methods import choose_methods
from .paces import ROUNDS, SECONDS, STEPS, plan_paces, read_paces
from .plan import MAX_SEEDS, Budget, Length, Planner
from .report import Report
from .run import PretrainRun
from .setting import BATCH_SIZE, EPOCHS, CompareSetting, Size, check_configs, check_images
from .tuning import Choice, choose

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
            log(read_images(data, "test").labelled.describe())
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
        self.planner = Planner(request.work_dir, setting, paces, images, rows, split)

    @property
    def choices(self) -> dict[Length, Choice]:
        """Chosen learning rates, as far as the tuning has come."""
        found = {length: choose(scores) for length, scores in self._scores().items()}
        return {length: choice for length, choice in found.items() if choice}

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
        tuning = self.tuning_runs()
        while not all(run.is_complete for run in tuning):  # the best rate may ask for more
            announce("tuning", tuning, self.request.jobs, self._log)
            require_all("the runs that choose the learning rates", self._execute(tuning))
            tuning = self.tuning_runs()
        runs = self.final_runs()
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
        jobs = self.request.jobs
        if self.request.tune:
            announce("tuning", self.tuning_runs(), jobs, self._log, each=True)
        announce("runs", self.final_runs(), jobs, self._log, each=True)

    def tuning_runs(self) -> list[PretrainRun]:
        """Return the runs that choose the learning rates, as far as they are known yet."""
        if not self.request.tune:
            return []
        return self.planner.tuning_runs(self.methods, self.request.budgets, self._scores())

    def final_runs(self) -> list[PretrainRun]:
        """Return the runs of the tables."""
        request = self.request
        return self.planner.final_runs(
            self.methods, request.num_seeds, request.budgets, self.choices
        )

    def report(self) -> Report:
        """Return what all calls in this work dir have found; of users' configs, the named ones'."""
        planner, choices = self.planner, self.choices
        machine = next((p.machine for p in planner.paces.values()), describe_machine("cpu"))
        day = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        minutes = (time.perf_counter() - self._start) / 60
        return Report(
            planner,
            {budget: planner.table(budget, choices) for budget in self.request.budgets},
            self.reference,
            planner.tuning_results(self.request.budgets) if self.request.tune else [],
            choices,
            f"`{self.request.command}`, {machine}, {day}, {minutes:.0f} min of the last call.",
        )

    def _scores(self) -> dict[Length, dict[float, list[float]]]:
        """Return the mAP of a tuning, by method and epochs, then by factor."""
        scores: defaultdict[Length, dict[float, list[float]]] = defaultdict(dict)
        if self.request.tune:
            for r in self.planner.tuning_results(self.request.budgets):
                scores[r.method, r.epochs].setdefault(r.lr_factor, []).append(r.mAP)
        return scores

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
        if before.pop("tuning_epochs", None):  # of former versions
            before["tune"] = True
        if any(work_dir.glob("runs/*")) or any(work_dir.glob("tuning/*")):
            joined(work_dir, before, settings)
        elif writes and any(before.get(key) != settings.get(key) for key in _OF_PACES):
            shutil.rmtree(work_dir / "paces", ignore_errors=True)
    if writes:
        write_marker(work_dir, MARKER, settings)
