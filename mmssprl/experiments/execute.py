"""Do runs, several at a time, and log progress and the time left."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import cycle, islice
from json import JSONDecodeError
from queue import SimpleQueue
from statistics import fmean
from typing import TypeVar

import torch

from ..console.live_line import at_work, clear_live_line
from ..console.wording import counted
from ..errors import UserRuntimeError
from ..system.environment import usable_cores
from .run import Run, RunFailedError, RunOutcome

R = TypeVar("R", bound=Run)
Log = Callable[[str], object]
"""Receives lines of progress."""


@dataclass(frozen=True)
class Jobs:
    """How many runs there are at a time, and with what."""

    num: int = 1
    threads: int = 1  # of the CPU, for each run
    groups: Sequence[str] = ()  # values of CUDA_VISIBLE_DEVICES that the runs take turns with


def jobs_of_machine(num: int | None, gpus_per_run: int = 1) -> Jobs:
    """Return ``num`` runs at a time; None is one per group of ``gpus_per_run`` GPUs, or per core.

    A remainder of GPUs stays idle, but fewer than one group needs are a group.
    """
    groups = []
    if torch.cuda.is_available():
        listed = os.environ.get("CUDA_VISIBLE_DEVICES")
        names = listed.split(",") if listed else [*map(str, range(torch.cuda.device_count()))]
        starts = range(0, max(1, len(names) - gpus_per_run + 1), gpus_per_run)
        groups = [",".join(names[i : i + gpus_per_run]) for i in starts]
    num = num or len(groups) or usable_cores()
    return Jobs(num, max(1, usable_cores() // num), groups)


def announce(what: str, runs: Sequence[Run], log: Log, *, each: bool = False) -> None:
    """Log how many runs are planned and complete; with ``each`` name them all."""
    missing = [run for run in runs if not run.is_complete]
    log(f"{what}: {len(runs)}, {len(runs) - len(missing)} of them complete")
    if num := sum(run.result_file.exists() for run in missing):
        changed = dict.fromkeys(name for run in missing for name in run.changed_settings())
        names = f" ({', '.join(changed)})" if changed else ""
        log(f"made with other settings{names}, will run again: {num} of them")
        log("  their folders are kept, renamed to NAME.replaced-1")
    if each:
        for run in runs:
            log(f"  {run.name}: {'to do' if run in missing else 'complete'}")


def execute_runs(
    runs: Sequence[R],
    jobs: Jobs,
    log: Log = print,
    ended: Callable[[Mapping[R, RunOutcome]], object] = lambda outcomes: None,
) -> dict[R, RunOutcome]:
    """Do the runs that are not complete, in order; return the outcomes of all.

    A run that fails does not stop the others; the next call tries it again. After each run ``log``
    receives its result and the time left, by the mean so far, and ``ended`` all outcomes so far.
    """
    outcomes = {run: outcome for run in runs if (outcome := run.kept())}
    missing = [run for run in runs if run not in outcomes]
    seconds: list[float] = []
    begun: list[R] = []
    groups: SimpleQueue[str] = SimpleQueue()
    for group in islice(cycle(jobs.groups or [""]), jobs.num):
        groups.put(group)

    def now() -> str:
        return next((run.last_line() for run in begun if run not in outcomes), "starting runs")

    def do(run: R) -> RunOutcome:
        group = groups.get()
        start = time.perf_counter()
        begun.append(run)
        try:
            values = run.work(jobs.threads, group)
            outcome = RunOutcome(values, time.perf_counter() - start, dict(run.settings))
            run.keep(outcome)
            return outcome
        # A full disk or a damaged file of one run must not cost the results of the others.
        except (RunFailedError, OSError, JSONDecodeError) as error:
            return RunOutcome({}, time.perf_counter() - start, reason=str(error))
        finally:
            groups.put(group)

    pool = ThreadPoolExecutor(jobs.num)  # threads that wait for the processes of the runs
    try:
        left = {pool.submit(do, run): run for run in missing}
        with at_work(now):  # around all runs, so that its lines become rarer
            while left:
                done = wait(left, return_when=FIRST_COMPLETED).done
                for future in [future for future in left if future in done]:  # in their order
                    run = left.pop(future)
                    outcome = outcomes[run] = future.result()
                    seconds.append(outcome.seconds)
                    number = f"{len(seconds):{len(str(len(missing)))}}/{len(missing)}"
                    minutes = fmean(seconds) * len(left) / jobs.num / 60
                    clear_live_line()
                    log(f"[{number}] {_result_line(run, outcome)}; about {minutes:.0f} min left")
                    ended({run: outcomes[run] for run in runs if run in outcomes})
    finally:
        pool.shutdown(cancel_futures=True)
    return {run: outcomes[run] for run in runs}


def _result_line(run: R, outcome: RunOutcome) -> str:
    """Return how a run has ended, and its time."""
    reason = outcome.reason
    result = f"failed, {reason}" if reason else run.summary(outcome.values)
    return f"{run.name}: {result}, {outcome.seconds:.0f} s"


def require_all(what: str, outcomes: Mapping[R, RunOutcome]) -> None:
    """Raise RuntimeError if a run has failed: how many have, and why the first one."""
    reasons = [outcome.reason for outcome in outcomes.values() if outcome.reason]
    if reasons:
        raise UserRuntimeError(
            f"{what}: {counted(len(reasons), 'run')} of {len(outcomes)} failed. First failure: "
            f"{reasons[0]}. Fix it and run the same command again; finished runs are kept."
        )
