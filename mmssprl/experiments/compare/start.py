"""The whole command: take the work dir, measure the paces, tune, run, and report."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from ...datasets.scenes.generate import generate_sample
from ...errors import UserValueError
from ...features.probe_data import read_masks
from ...pretraining.methods import BY_KEY
from ...system.environment import describe_machine
from ..execute import Jobs, Log, announce, execute_runs, require_all
from ..run import Run, RunOutcome
from ..work_dir import claim
from .images import Split, TrainingImages, list_images, read_images
from .methods import choose_methods
from .pace import ROUNDS, SECONDS, STEPS, plan_paces, read_paces
from .plan import Equal, Planner
from .report import Report
from .setting import EPOCHS, CompareSetting, Size, check_configs, check_images


@dataclass(frozen=True)
class Request:
    """What a call asks for: the options of the command, and how it was typed."""

    work_dir: Path
    words: Sequence[str]
    reference: str
    num_seeds: int
    equal: Sequence[Equal]
    data: Path | None
    size: Size
    batch_size: int
    epochs: int | None = None
    tune: bool = False
    jobs: Jobs = Jobs()
    command: str = ""
    dry_run: bool = False


class Comparison:
    """A comparison in its work dir; options are checked before it is claimed, and then it is."""

    def __init__(self, request: Request, log: Log = print) -> None:
        self.request, self._log = request, log
        self._start = time.perf_counter()
        epochs = EPOCHS[request.size] if request.epochs is None else request.epochs
        reference, *others = choose_methods([request.reference])
        if others:
            raise UserValueError(
                f"--reference must be one method, but {request.reference} are "
                f"{1 + len(others)}; name one of them, such as {others[-1].key}."
            )
        self.methods = choose_methods([*request.words, request.reference])
        self.reference = reference.key
        data = (request.data or request.work_dir / "scenes" / "coco").resolve()
        self._setting = CompareSetting(request.size, data, epochs, request.batch_size)
        check_configs(self._setting, self.methods)
        if request.data is not None:
            found = read_images(request.data, "test")
            log(found.labelled.describe())
            read_masks(request.data, found, log=log)

    @property
    def _is_timed(self) -> bool:
        """Whether a method's epochs hang on how long its steps take."""
        return "time" in self.request.equal

    @cached_property
    def planner(self) -> Planner:
        """What plans the runs, in the work dir that is claimed for it."""
        request, setting, log = self.request, self._setting, self._log
        data, writes = setting.data, not request.dry_run
        common = {
            "data": request.data and str(data),
            "size": request.size,
            "epochs": setting.epochs,
            "batch_size": request.batch_size,
            **({"tune": True} if request.tune else {}),
        }
        if writes:
            claim(request.work_dir, "compare.json", "a comparison", common)
            if request.data is None:
                generate_sample(request.work_dir, log)
        splits: list[Split] = ["test", "held-out"] if request.tune else ["test"]
        images: dict[Split, TrainingImages] = {}
        for each in splits if data.exists() else ():
            images[each] = list_images(request.work_dir / "lists", data, each, writes=writes)
            check_images(setting, self.methods, images[each])
        rows = {**BY_KEY, **{method.key: method for method in self.methods}}
        about = (request.work_dir, setting, rows)
        paces = read_paces(*about, images["test"], is_timed=self._is_timed) if images else {}
        return Planner(request.work_dir, setting, paces, images, rows, request.equal, request.tune)

    def run(self) -> int:
        """Do what is missing, then report; return how many runs have failed."""
        if pace := self._pace_run():
            turns = f"at most {ROUNDS} turns of {STEPS} steps or {SECONDS:.0f} s each"
            self._log(f"{pace.name}, {turns if self._is_timed else 'a step of each'}")
            require_all("the paces", self._execute([pace]))
            planner = self.planner
            about = (planner.work_dir, planner.setting, planner.methods, planner.images["test"])
            self.planner = replace(planner, paces=read_paces(*about, is_timed=self._is_timed))
        for method in self.methods:  # a length below one epoch is told before any training
            [self.planner.epochs(method, equal) for equal in self.request.equal]
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
            {equal: planner.table(equal) for equal in planner.equal},
            self.reference,
            planner.tuning_results(),
            planner.choices,
            f"`{self.request.command}`, {machine}, {day}, {minutes:.0f} min of the last call.",
        )

    def _pace_run(self) -> Run | None:
        planner = self.planner
        images = planner.images["test"]
        about = (planner.work_dir, planner.setting, self.methods, images, planner.paces)
        return plan_paces(*about, is_timed=self._is_timed, num_seeds=self.request.num_seeds)

    def _execute(self, runs: Sequence[Run]) -> list[RunOutcome]:
        def told(line: str) -> None:
            self._log(line)
            self.report().write(self.request.work_dir)

        return execute_runs(runs, self.request.jobs, told)
