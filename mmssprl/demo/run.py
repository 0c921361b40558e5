"""All runs of the demonstration, several at a time, then table and pictures."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ..config.shipped import shipped
from ..datasets.scenes.sample import generate_sample
from ..errors import UserRuntimeError
from ..experiments.execute import execute_runs
from ..experiments.work_dir import check_own
from ..experiments.workers import Workers
from ..system.outputs import write_figure, write_whole
from .methods import (
    RANDOM,
    SMALL_SAMPLED_TIME,
    SSPRL,
    SWAV_EPOCHS,
    SWAV_SMALL_TIME,
    SWAV_TIME,
    DemoRow,
)
from .table import CAPTION, Values, format_csv, format_table
from .training import Training, warm_up

MARKER = "made_by_mmssprl_demo.txt"


def run_demo(
    work_dir: Path,
    *,
    num_seeds: int = 3,
    num_jobs: int = 2,
    log: Callable[[str], object] = print,
) -> list[Values]:
    """Run what is missing in ``work_dir``, then write table and pictures.

    Args:
        work_dir: Folder of data, runs, table and pictures; complete runs in it are kept.
        num_seeds: Runs of each method.
        num_jobs: Runs at a time, one core each.
        log: Receives lines about the progress.

    Returns:
        What ``train_and_probe`` returned for each run.

    Raises:
        FileExistsError: ``work_dir`` holds files that no demo has made.
        RuntimeError: Runs have failed, after all others have ended.
    """
    start = time.perf_counter()
    claim(work_dir)
    output = work_dir / "runs.log"
    with Workers(num_jobs, output) as workers:
        compiled = workers.submit(warm_up)  # while the scenes are drawn
        scenes = generate_sample(work_dir, log)
        compiled.result()
        log(f"runs: {num_jobs} at a time, their output goes to {output}")
        runs = plan_runs(work_dir, scenes, workers, num_seeds)
        outcomes = execute_runs(runs, num_jobs=num_jobs, log=log)
    num_failed = sum(bool(outcome.reason) for outcome in outcomes)
    if num_failed:
        raise UserRuntimeError(
            f"the table needs all {len(runs)} runs, but {num_failed} failed, see {output}; the "
            "same command does them again and keeps the others."
        )
    results = [o.values for run, o in zip(runs, outcomes, strict=True) if run.probed]
    table = f"{format_table(results)}\n\n{CAPTION}"
    write_whole(work_dir / "table.md", table + "\n")
    write_whole(work_dir / "results.csv", format_csv(results))
    pictures = _draw_pictures(runs[0], work_dir)
    log(f"\n{table}\n")
    log("\n".join(f"picture: {path}" for path in pictures))
    log(f"table: {work_dir / 'table.md'}, every run: {work_dir / 'results.csv'}")
    log(f"log, config, checkpoint and backbone weights of one run: {runs[0].folder}")
    log(f"{time.perf_counter() - start:.0f} s in all")
    return results


def plan_runs(work_dir: Path, scenes: Path, workers: Workers, num_seeds: int) -> list[Training]:
    """Return the runs of all methods, SS-PRL with seed 0 first, and those that measure a pace.

    Short and long runs alternate: all steps are measured beside others, and no core is idle.
    """
    training = partial(Training, scenes=scenes, workers=workers)

    def make(method: DemoRow, needs: tuple[Training, ...] = ()) -> tuple[Training, ...]:
        return tuple(
            training(
                name=f"{method.title}, seed {seed}",
                kind=method.kind,
                folder=work_dir / f"{method.key}_seed{seed}",
                needs=needs,
                method=method,
                seed=seed,
            )
            for seed in range(num_seeds)
        )

    ssprl, swav = make(SSPRL), make(SWAV_EPOCHS)
    paced = [SWAV_SMALL_TIME, SMALL_SAMPLED_TIME]
    paces = [
        training(
            name=f"pace of {method.title.removesuffix(', equal time')}",
            kind="pace",
            folder=work_dir / method.key.replace("equal_time", "pace"),
            method=method,
            seed=0,
            epochs=1,
            probed=False,
        )
        for method in paced
    ]
    in_equal_time = list(make(SWAV_TIME, (*ssprl, *swav)))
    for method, pace in zip(paced, paces, strict=True):
        in_equal_time += make(method, (*ssprl, pace))
    return [ssprl[0], *swav, *paces, *ssprl[1:], *make(RANDOM), *in_equal_time]


def claim(work_dir: Path) -> None:
    """Mark a new or empty folder as the demo's own, in which it may delete what is incomplete.

    Raises:
        FileExistsError: The folder holds files and is not marked; nothing in it is touched.
    """
    check_own(work_dir, MARKER, "the demo (for make: DEMO_DIR=...)")
    work_dir.mkdir(parents=True, exist_ok=True)
    (work_dir / MARKER).write_text(
        "Made by `python -m mmssprl demo`, which may delete incomplete runs in here.\n"
    )


def _draw_pictures(run: Training, work_dir: Path) -> list[Path]:
    from ..visualization import draw_losses, draw_views

    image = sorted((run.scenes / "coco" / "val2014").glob("*.jpg"))[0]
    views, losses = work_dir / "views.png", work_dir / "losses.png"
    write_figure(views, draw_views(shipped(run.method.config), image))
    write_figure(losses, draw_losses(run.folder))
    return [views, losses]
