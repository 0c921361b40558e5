"""Run what a plan asks for, several runs at a time, and keep what is complete."""

import json
import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import takewhile
from pathlib import Path
from statistics import fmean

from ..errors import UserRuntimeError
from ..outputs import write_whole
from .plan import Plan, Run
from .results import METRICS, Result

_MAX_REASON = 200
_TORCHRUN = "torch.distributed.elastic"
"""Begins what torchrun prints after the traceback of a process that failed."""


def execute_plan(
    plan: Plan, *, num_jobs: int, threads: int, log: Callable[[str], object] = print
) -> list[Result]:
    """Run everything that is not complete yet.

    Args:
        plan: From ``make_plan``.
        num_jobs: Runs at a time.
        threads: CPU threads of each.
        log: Receives a line about each finished run, with an estimate of the time left.

    Returns:
        One result per run, the skipped ones included. A run that fails is reported and tried again
        by the next call.

    Raises:
        RuntimeError: The training that the 'supervised' weights come from failed.
    """
    tested = [run.result_file.exists() or run.metrics_file.exists() for run in plan.runs]
    needed = {run.weights for run, done in zip(plan.runs, tested, strict=True) if not done}
    for run in plan.pretraining:
        if run.weights not in needed:
            continue
        log(f"supervised pre-training, output in {run.folder / 'run.log'}")
        reason = _run_commands(run, threads)
        if reason:
            raise UserRuntimeError(
                f"the supervised weights must be trained first, but that failed: {reason}; see "
                f"{run.folder / 'run.log'}."
            )
    num_done = 0
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    pool = ThreadPoolExecutor(num_jobs)
    try:
        futures = {pool.submit(_execute, run, threads): run for run in plan.runs}
        for future in as_completed(futures):
            result = future.result()
            num_done += 1
            seconds[result.protocol].append(result.seconds)
            waiting = [run.protocol.name for f, run in futures.items() if not f.done()]
            left = _time_left(waiting, seconds) / num_jobs
            log(
                f"[{num_done:{len(str(len(plan.runs)))}}/{len(plan.runs)}] "
                f"{result.protocol}, {result.weights}, seed {result.seed}: {_summary(result)}, "
                f"{result.seconds:.0f} s; about {left / 60:.0f} min left"
            )
    finally:
        pool.shutdown(cancel_futures=True)
    return [*(future.result() for future in futures), *plan.skipped]


def find_results(work_dir: Path, planned: Sequence[Result]) -> list[Result]:
    """Return what earlier calls have completed in a work dir beside the runs of this one."""
    known = {(result.protocol, result.weights, result.seed) for result in planned}
    found = [
        Result.from_dict(json.loads(path.read_text()))
        for path in sorted(work_dir.glob("runs/*/*/seed*/result.json"))
    ]
    return [r for r in found if (r.protocol, r.weights, r.seed) not in known]


def _execute(run: Run, threads: int) -> Result:
    if run.result_file.exists():
        return Result.from_dict(json.loads(run.result_file.read_text()))
    start = time.perf_counter()
    reason = "" if run.metrics_file.exists() else _run_commands(run, threads)
    metrics: dict[str, float] = {}
    if not reason:
        metrics = run.protocol.read_metrics(json.loads(run.metrics_file.read_text()))
        if not metrics:
            reason = "the test gave none of the protocol's metrics"
            run.metrics_file.unlink()  # the next call tests again
    result = Result(
        run.protocol.name,
        run.weights,
        run.seed,
        metrics,
        time.perf_counter() - start,
        "failed" if reason else "done",
        reason,
    )
    if not reason:
        write_whole(run.result_file, json.dumps(result.to_dict(), indent=2) + "\n")
    return result


def _run_commands(run: Run, threads: int) -> str:
    """Return why a command failed, or nothing."""
    run.folder.mkdir(parents=True, exist_ok=True)
    path = run.folder / "run.log"
    env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    for command in run.commands:
        start = path.stat().st_size if path.exists() else 0
        with path.open("a") as file:
            status = subprocess.run(
                command, env=env, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
            ).returncode
        if status:
            return f"{_last_line(path, start)[:_MAX_REASON]} (exit code {status}, {path})"
    return ""


def _last_line(path: Path, start: int) -> str:
    """Return the last line that a command has written to a log, torchrun's own report aside."""
    with path.open("rb") as file:
        file.seek(start)
        text = file.read().decode(errors="replace")
    lines = takewhile(lambda line: _TORCHRUN not in line, text.splitlines())
    return next((line.strip() for line in reversed(list(lines)) if line.strip()), "no output")


def _summary(result: Result) -> str:
    if result.status != "done":
        return f"{result.status}, {result.reason}"
    main = METRICS[result.protocol][0]
    return f"{main} {result.metrics[main]:.1f} %" if main in result.metrics else "done"


def _time_left(waiting: Sequence[str], seconds: dict[str, list[float]]) -> float:
    known = [value for values in seconds.values() for value in values]
    return sum(fmean(seconds.get(name) or known) for name in waiting)
