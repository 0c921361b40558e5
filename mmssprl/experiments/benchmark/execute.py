"""Run what a plan of the benchmark asks for, and find what earlier calls have measured."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ..execute import execute_runs
from ..run import read_result
from .plan import Plan
from .results import Result


def execute_plan(
    plan: Plan,
    *,
    num_jobs: int,
    threads: int,
    groups: Sequence[str] = (),
    log: Callable[[str], object] = print,
) -> list[Result]:
    """Do ``execute_runs``, and return one result per run, the skipped ones included."""
    outcomes = execute_runs(plan.runs, num_jobs=num_jobs, threads=threads, groups=groups, log=log)
    results = [run.result(outcome) for run, outcome in zip(plan.runs, outcomes, strict=True)]
    return [*results, *plan.skipped]


def find_results(work_dir: Path, planned: Sequence[Result]) -> list[Result]:
    """Return what earlier calls have completed in a work dir beside the runs of this one."""
    known = {(result.protocol, result.weights, result.seed) for result in planned}
    found = []
    for path in sorted(work_dir.glob("runs/*/*/seed*/result.json")):
        *_, weights, protocol, seed, _ = path.parts
        kept = read_result(path)
        run = (protocol, weights, int(seed.removeprefix("seed")))
        if run not in known:
            found.append(Result(*run, kept["values"], kept["seconds"], "done"))
    return found
