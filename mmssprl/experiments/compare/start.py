"""The whole command: take the work dir, measure the paces, tune, run, and report."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ...console.wording import counted
from ...datasets.scenes.sample import generate_sample
from ...errors import UserRuntimeError, UserValueError
from ...pretraining.methods import BY_KEY
from ...system.environment import describe_machine
from ..execute import execute_runs
from ..run import Run, RunOutcome
from .images import Split, TrainingImages, list_images, read_images
from .methods import choose_methods
from .paces import plan_paces, read_paces
from .plan import MAX_SEEDS, Budget, Length, Planner
from .report import Report
from .results import PretrainResult, in_budget, of_tuning, read_results, scores_of
from .run import PaceRun, PretrainRun
from .setting import BATCH_SIZE, EPOCHS, CompareSetting, Size, check_configs, check_images
from .tuning import Choice, choose
from .work_dir import claim

_REPORT_S = 5.0
"""At least, between two reports while runs end."""


@dataclass(frozen=True)
class Request:
    """What a call asks for: the options of the command.

    Args:
        work_dir: Folder of the comparison.
        words: Methods and groups of them.
        reference: Key of the method that the others are compared with; it is run, too.
        num_seeds: Runs of each method.
        budgets: Tables.
        data: Labelled folder; None generates the scenes.
        size: Of the shipped configs.
        epochs: Of SS-PRL; None takes the size's.
        batch_size: Images of a step.
        tune: Whether the learning rates are chosen first.
        held_out: Whether a fifth of the training images is scored in place of the test images.
        num_jobs: Runs at a time.
        groups: Of GPUs, which runs are spread over.
        threads: CPU threads of each.
        command: As it was typed, for the foot of the tables.
        dry_run: Whether nothing is trained or written.
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
    num_jobs: int = 1
    groups: tuple[str, ...] = ()
    threads: int = 1
    command: str = ""
    dry_run: bool = False


class Comparison:
    """A comparison in its work dir, claimed and checked.

    Args:
        request: What is asked for.
        log: Receives lines about the progress.

    Raises:
        ValueError, FileNotFoundError, FileExistsError: Anything of the request that does not fit,
            before any training.
    """

    def __init__(self, request: Request, log: Callable[[str], object] = print) -> None:
        self.request, self._log = request, log
        self._start = time.perf_counter()
        epochs = EPOCHS[request.size] if request.epochs is None else request.epochs
        if not 1 <= request.num_seeds <= MAX_SEEDS:
            raise UserValueError(
                f"--seeds must be from 1 to {MAX_SEEDS}, beyond which the tuning's begin, but got "
                f"{request.num_seeds}."
            )
        if epochs < 1:
            raise UserValueError(f"a budget must be at least one epoch, but --epochs is {epochs}.")
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
        claim(request.work_dir, common, writes=not request.dry_run)
        if data is None:
            if not request.dry_run:
                generate_sample(request.work_dir, log)
            data = (request.work_dir / "scenes" / "coco").resolve()
        setting = CompareSetting(request.size, data, epochs, request.batch_size)
        check_configs(setting, self.methods)
        split: Split = "held-out" if request.held_out else "test"
        images: dict[Split, TrainingImages] = {}
        also: list[Split] = ["held-out"] * request.tune
        for each in dict.fromkeys([split, *also]) if data.exists() else ():
            lists = request.work_dir / "lists"
            images[each] = list_images(lists, data, each, writes=not request.dry_run)
            check_images(setting, self.methods, images[each])
        rows = {**BY_KEY, **{method.key: method for method in self.methods}}
        paces = read_paces(request.work_dir, setting, rows)
        self.planner = Planner(request.work_dir, setting, paces, images, rows, split)

    @property
    def choices(self) -> dict[Length, Choice]:
        """Of the learning rates, as far as the tuning has come."""
        found = {k: choose(scores) for k, scores in scores_of(self.tuning_results()).items()}
        return {key: choice for key, choice in found.items() if choice}

    def run(self) -> int:
        """Do what is missing, then report; return how many runs have failed.

        Raises:
            RuntimeError: The paces or the tuning, which the runs need, have failed.
        """
        pace = self._pace_run()
        if pace:
            self._log(
                f"{pace.name}, {pace.rounds} turns of {pace.steps} steps or {pace.seconds:.0f} s "
                f"each; {pace.log_file} tells of every turn"
            )
            self._require(self._execute([pace]), "the paces")
            planner = self.planner
            paces = read_paces(planner.work_dir, planner.setting, planner.methods)
            self.planner = replace(planner, paces=paces)
        for method in self.methods:  # a budget below one epoch is told before any training
            [self.planner.epochs(method, budget) for budget in self.request.budgets]
        tuning = self.tuning_runs()
        while not all(run.is_kept for run in tuning):  # the best rate may ask for more
            self._announce("tuning", tuning)
            self._require(self._execute(tuning), "the learning rates")
            tuning = self.tuning_runs()
        runs = self.final_runs()
        self._announce("runs", runs)
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
        plans = {"runs": self.final_runs()}
        if self.request.tune:
            plans = {"tuning": self.tuning_runs(), **plans}
        for name, runs in plans.items():
            self._announce(name, runs)
            for run in runs:
                done = "complete" if run.is_kept else f"{run.expected_s / 60:.1f} min"
                self._log(f"  {run.name}: {done}")

    def tuning_runs(self) -> list[PretrainRun]:
        """Return the runs that choose the learning rates, as far as they are known yet."""
        if not self.request.tune:
            return []
        scores = scores_of(self.tuning_results())
        return self.planner.tuning_runs(self.methods, self.request.budgets, scores)

    def final_runs(self) -> list[PretrainRun]:
        """Return the runs of the tables."""
        request = self.request
        return self.planner.final_runs(
            self.methods, request.num_seeds, request.budgets, self.choices
        )

    def report(self) -> Report:
        """Return what all calls in this work dir have found; of users' configs, the named ones'."""
        planner, choices = self.planner, self.choices
        results, num_others = read_results(planner, planner.split)
        return Report(
            planner,
            {b: in_budget(results, planner, b, choices) for b in self.request.budgets},
            self.reference,
            self.tuning_results(),
            choices,
            self._foot(),
            num_others,
        )

    def tuning_results(self) -> list[PretrainResult]:
        """Return the runs that choose the learning rates, as far as they are complete."""
        if not self.request.tune:
            return []
        results, _ = read_results(self.planner, "held-out")
        return of_tuning(results, self.planner, self.request.budgets)

    def _foot(self) -> list[str]:
        machine = next((p.machine for p in self.planner.paces.values()), describe_machine("cpu"))
        day = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        return [
            f"`{self.request.command}`, {machine}, {day}, "
            f"{(time.perf_counter() - self._start) / 60:.0f} min of the last call."
        ]

    def _pace_run(self) -> PaceRun | None:
        planner = self.planner
        images = planner.images[planner.split]
        return plan_paces(planner.work_dir, planner.setting, self.methods, images, planner.paces)

    def _announce(self, name: str, runs: Sequence[PretrainRun]) -> None:
        jobs = self.request.num_jobs
        missing = [run for run in runs if not run.is_kept]
        seconds = sum(run.expected_s for run in missing) / jobs
        redone = [run for run in missing if run.is_complete]
        self._log(
            f"{name}: {len(runs)}, {len(runs) - len(missing)} of them complete; the others take "
            f"about {seconds / 60:.0f} min, {jobs} at a time"
        )
        if redone:
            self._log(f"made with other settings, and done again: {len(redone)} of them")

    def _execute(self, runs: Sequence[Run]) -> list[RunOutcome]:
        written_s = -_REPORT_S

        def told(line: str) -> None:
            nonlocal written_s
            self._log(line)
            # A call that goes on tells of all complete runs at once: one report of them is enough.
            if time.perf_counter() - written_s > _REPORT_S:
                self.report().write(self.request.work_dir)
                written_s = time.perf_counter()

        request = self.request
        return execute_runs(
            runs,
            num_jobs=request.num_jobs,
            threads=request.threads,
            groups=request.groups,
            log=told,
        )

    def _require(self, outcomes: Sequence[RunOutcome], what: str) -> None:
        reasons = [outcome.reason for outcome in outcomes if outcome.reason]
        if reasons:
            raise UserRuntimeError(
                f"the runs need {what}, but {counted(len(reasons), 'run')} failed, the first "
                f"with: {reasons[0]}; mend that, and the same command does them again and keeps "
                "the others."
            )
