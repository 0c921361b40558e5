"""All runs of the demonstration, several at a time, then table and pictures."""

import os
import shutil
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ..errors import UserFileExistsError
from ..shipped import shipped
from .methods import METHODS, RANDOM, SSPRL, SWAV_EPOCHS, SWAV_SMALL_TIME, SWAV_TIME, Method
from .table import CAPTION, epochs_in_equal_time, format_table, write_csv
from .training import SIZE_PX, Run, execute, warm_up

MARKER = "made_by_mmssprl_demo.txt"
NUM_TRAIN, NUM_VAL = 1200, 600


def run_demo(
    work_dir: Path,
    *,
    num_seeds: int = 3,
    num_jobs: int = 2,
    log: Callable[[str], object] = print,
) -> list[dict[str, Any]]:
    """Run what is missing in ``work_dir``, then write table and pictures.

    Args:
        work_dir: Folder of data, runs, table and pictures; complete runs in it are kept.
        num_seeds: Runs of each method.
        num_jobs: Runs at a time, one core each.
        log: Receives lines about the progress.

    Returns:
        One result of ``execute`` per run.

    Raises:
        FileExistsError: ``work_dir`` holds files that no demo has made.
    """
    start = time.perf_counter()
    claim(work_dir)
    total = num_seeds * sum(method.share for method in METHODS)
    done = 0.0
    results: list[dict[str, Any]] = []

    def finish(futures: Iterable[Future]) -> None:
        nonlocal done
        for future in as_completed(futures):
            result = future.result()
            results.append(result)
            method = next(m for m in METHODS if m.title == result["method"])
            done += method.share
            left = (time.perf_counter() - runs_start) * max(0.0, total - done) / done
            log(
                f"[{done / total:4.0%}] {method.title}, seed {result['seed']}: "
                f"mAP {100 * result['mAP']:.1f} %, {result['seconds']:.0f} s; "
                f"about {left / 60:.1f} min left"
            )

    def of(method: Method) -> list[dict[str, Any]]:
        return [result for result in results if result["method"] == method.title]

    with ProcessPoolExecutor(
        num_jobs, get_context("spawn"), initializer=_start_worker, initargs=(work_dir / "runs.log",)
    ) as pool:
        compiled = pool.submit(warm_up)  # while the scenes are drawn
        scenes = _draw_scenes(work_dir, log)
        compiled.result()
        runs_start = time.perf_counter()
        log(f"runs: {num_jobs} at a time, their output goes to {work_dir / 'runs.log'}")

        def make(method: Method, epochs: int | None = None) -> list[Run]:
            key = method.key if epochs is None else f"{method.key}_{epochs}epochs"
            folders = [work_dir / f"{key}_seed{seed}" for seed in range(num_seeds)]
            return [Run(method, seed, path, scenes, epochs) for seed, path in enumerate(folders)]

        def submit(runs: Iterable[Run]) -> list[Future]:
            return [pool.submit(execute, run) for run in runs]

        # Short and long runs alternate: all steps are measured beside others, and no core is idle.
        ssprl = make(SSPRL)
        measured = submit([ssprl[0], *make(SWAV_EPOCHS)])
        pace_dir = work_dir / "swav_small_views_pace"
        [pace] = submit([Run(SWAV_SMALL_TIME, 0, pace_dir, scenes, epochs=1, probed=False)])
        measured += submit(ssprl[1:])
        rest = submit(make(RANDOM))
        finish(measured)
        paces = {SWAV_TIME: of(SWAV_EPOCHS), SWAV_SMALL_TIME: [pace.result()]}
        for method, paced in paces.items():
            rest += submit(make(method, epochs_in_equal_time(of(SSPRL), paced)))
        finish(rest)
    table = f"{format_table(results)}\n\n{CAPTION}"
    (work_dir / "table.md").write_text(table + "\n")
    write_csv(results, work_dir / "results.csv")
    pictures = _draw_pictures(ssprl[0], work_dir)
    log(f"\n{table}\n")
    log("\n".join(f"picture: {path}" for path in pictures))
    log(f"table: {work_dir / 'table.md'}, every run: {work_dir / 'results.csv'}")
    log(f"log, config, checkpoint and backbone weights of one run: {ssprl[0].work_dir}")
    log(f"{time.perf_counter() - start:.0f} s in all")
    return results


def claim(work_dir: Path) -> None:
    """Mark a new or empty folder as the demo's own, in which it may delete what is incomplete.

    Raises:
        FileExistsError: The folder holds files and is not marked; nothing in it is touched.
    """
    marker = work_dir / MARKER
    if work_dir.exists() and not marker.exists() and any(work_dir.iterdir()):
        raise UserFileExistsError(
            f"the demo needs a folder of its own, but {work_dir} holds other files; "
            "give another --work-dir (for make: DEMO_DIR=...)."
        )
    work_dir.mkdir(parents=True, exist_ok=True)
    marker.write_text(
        "Made by `python -m mmssprl demo`, which may delete incomplete runs in here.\n"
    )


def _draw_scenes(work_dir: Path, log: Callable[[str], object]) -> Path:
    from ..datasets.scenes import generate_scenes
    from ..datasets.scenes.generate import META_FILE

    folder = work_dir / "scenes"
    if not (folder / META_FILE).exists():
        shutil.rmtree(folder, ignore_errors=True)  # stopped half-way
    log(f"scenes: {NUM_TRAIN} + {NUM_VAL} images of {SIZE_PX} px")
    return generate_scenes(folder, num_train=NUM_TRAIN, num_val=NUM_VAL, size_px=SIZE_PX)


def _draw_pictures(run: Run, work_dir: Path) -> list[Path]:
    from ..visualization import draw_losses, draw_views

    image = sorted((run.scenes / "coco" / "val2014").glob("*.jpg"))[0]
    figures = {
        "views.png": draw_views(shipped(run.method.config), image),
        "losses.png": draw_losses(run.work_dir),
    }
    for name, figure in figures.items():
        figure.savefig(work_dir / name)
    return [work_dir / name for name in figures]


def _start_worker(log_file: Path) -> None:
    """Send the worker's output to a file and keep it on one core and off any GPU."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import torch

    descriptor = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    torch.set_num_threads(1)
