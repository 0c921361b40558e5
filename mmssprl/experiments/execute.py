"""Do the work of runs, several at a time, and tell what is done and how long the rest will take."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from json import JSONDecodeError
from queue import SimpleQueue
from statistics import fmean

from .gpus import take_group
from .run import Run, RunFailedError, RunOutcome


def with_needs(runs: Iterable[Run]) -> list[Run]:
    """Return the runs, and before each what it needs unless it is complete."""
    found: dict[Run, None] = {}
    for run in runs:
        if not run.is_complete:
            found.update(dict.fromkeys(with_needs(run.needs)))
        found[run] = None
    return list(found)


def execute_runs(
    runs: Sequence[Run],
    *,
    num_jobs: int,
    threads: int = 1,
    groups: Sequence[str] = (),
    log: Callable[[str], object] = print,
) -> list[RunOutcome]:
    """Do everything that is not complete yet.

    They begin in their order, each once the runs that it needs have ended. A run that fails is
    reported, so are those that need it, and the next call tries them again; the others go on.

    Args:
        runs: What is wanted.
        num_jobs: Runs at a time.
        threads: CPU threads of each.
        groups: Of GPUs, which the runs are spread over, see ``groups_of_gpus``.
        log: Receives a line about each run that has ended, with an estimate of the time left.

    Returns:
        An outcome for each of ``runs``.
    """
    waiting = with_needs(runs)
    total, width = len(waiting), len(str(len(waiting)))
    planned = set(waiting)
    outcomes: dict[Run, RunOutcome] = {}
    under_way: dict[Future[RunOutcome], Run] = {}
    queue: SimpleQueue[str] = SimpleQueue()
    for i in range(num_jobs):
        queue.put(groups[i % len(groups)] if groups else "")
    # Its threads only wait for processes that do the work.
    pool = ThreadPoolExecutor(num_jobs, initializer=take_group, initargs=(queue,))
    try:
        while waiting or under_way:
            for run in list(waiting):
                # What is not planned is needed by complete runs alone.
                needs = [need for need in run.needs if need in planned]
                if all(need in outcomes for need in needs):
                    needed = {need: outcomes[need] for need in needs}
                    under_way[pool.submit(_execute, run, needed, threads)] = run
                    waiting.remove(run)
            done = wait(under_way, return_when=FIRST_COMPLETED).done
            for future in [future for future in under_way if future in done]:  # in their order
                run = under_way.pop(future)
                outcome = outcomes[run] = future.result()
                left = seconds_left([*under_way.values(), *waiting], outcomes) / num_jobs
                reason = outcome.reason
                told = f"failed, {reason}" if reason else run.summary(outcome.values)
                log(
                    f"[{len(outcomes):{width}}/{total}] {run.name}: {told}, "
                    f"{outcome.seconds:.0f} s; about {left / 60:.0f} min left"
                )
    finally:
        pool.shutdown(cancel_futures=True)
    return [outcomes[run] for run in runs]


def seconds_left(runs: Iterable[Run], outcomes: Mapping[Run, RunOutcome]) -> float:
    """Return what ``runs`` will take one after the other.

    Args:
        runs: Not ended yet.
        outcomes: Of at least one run. For a kind that has none among them, what is expected of it
            is scaled as it turned out for others; where nothing is, their mean is taken.
    """
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    for run, outcome in outcomes.items():
        seconds[run.kind].append(outcome.seconds)
    known = [outcome.seconds for outcome in outcomes.values()]
    expected = {run: outcome.seconds for run, outcome in outcomes.items() if run.expected_s}
    scale = sum(expected.values()) / sum(run.expected_s for run in expected) if expected else 0.0

    def of(run: Run) -> float:
        if run.kind in seconds:
            return fmean(seconds[run.kind])
        return scale * run.expected_s or fmean(known)

    return sum(map(of, runs))


def _execute(run: Run, needed: Mapping[Run, RunOutcome], threads: int) -> RunOutcome:
    for need, outcome in needed.items():
        if outcome.reason:
            return RunOutcome({}, 0.0, reason=f"needs {need.name}, which failed: {outcome.reason}")
    settings = run.settings([*needed.values()])
    start = time.perf_counter()
    try:
        kept = run.kept(settings)
        if kept:
            return kept
        values = run.work([*needed.values()], threads)
        outcome = RunOutcome(values, time.perf_counter() - start, settings)
        run.keep(outcome)
    # A full disk or a damaged file of one run must not cost the results of the others.
    except (RunFailedError, OSError, JSONDecodeError) as error:
        return RunOutcome({}, time.perf_counter() - start, settings, str(error))
    return outcome
