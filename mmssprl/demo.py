"""The demonstration: SS-PRL beside random weights and SwAV on generated scenes, over seeds."""

import csv
import json
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from .errors import UserFileExistsError
from .shipped import shipped

MARKER = "made_by_mmssprl_demo.txt"
NUM_TRAIN, NUM_VAL, SIZE_PX = 1200, 600, 96
SSPRL_CONFIG = "configs/ssprl/ssprl_resnet18_scenes.py"
SWAV_CONFIG = "configs/ssprl/ssprl-image-only_resnet18_scenes.py"


@dataclass(frozen=True)
class Method:
    """One row of the table.

    Args:
        key: Folder name.
        title: As printed.
        config: Shipped config; its backbone with random weights if ``trains`` is False.
        trains: Whether it is trained before the probe.
        share: Its time as a share of SS-PRL's, for the estimate of the time left.
    """

    key: str
    title: str
    config: str
    trains: bool
    share: float


RANDOM = Method("random", "random weights", SSPRL_CONFIG, False, 0.1)
SSPRL = Method("ssprl", "SS-PRL", SSPRL_CONFIG, True, 1.0)
SWAV_EPOCHS = Method("swav_equal_epochs", "SwAV, equal epochs", SWAV_CONFIG, True, 0.3)
SWAV_TIME = Method("swav_equal_time", "SwAV, equal time", SWAV_CONFIG, True, 1.0)
METHODS = (RANDOM, SWAV_EPOCHS, SWAV_TIME, SSPRL)


@dataclass(frozen=True)
class Run:
    """One training and its probe."""

    method: Method
    seed: int
    work_dir: Path
    scenes: Path
    epochs: int | None = None

    @property
    def result_file(self) -> Path:
        """Written last: its presence means that the run is complete."""
        return self.work_dir / "result.json"


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
        One result per run: ``method``, ``seed``, ``mAP`` in [0, 1], ``epochs``, ``seconds``.

    Raises:
        FileExistsError: ``work_dir`` holds files that no demo has made.
    """
    from .datasets.scenes import generate_scenes
    from .datasets.scenes.generate import META_FILE

    start = time.perf_counter()
    claim(work_dir)
    if not (work_dir / "scenes" / META_FILE).exists():
        shutil.rmtree(work_dir / "scenes", ignore_errors=True)  # stopped half-way
    log(f"scenes: {NUM_TRAIN} + {NUM_VAL} images of {SIZE_PX} px")
    scenes = generate_scenes(
        work_dir / "scenes", num_train=NUM_TRAIN, num_val=NUM_VAL, size_px=SIZE_PX
    )
    total = num_seeds * sum(method.share for method in METHODS)
    done = 0.0
    results: list[dict[str, Any]] = []

    def make(method: Method, epochs: int | None = None) -> list[Run]:
        key = method.key if epochs is None else f"{method.key}_{epochs}epochs"
        folders = [work_dir / f"{key}_seed{seed}" for seed in range(num_seeds)]
        return [Run(method, seed, path, scenes, epochs) for seed, path in enumerate(folders)]

    def finish(futures: Iterable[Future]) -> list[dict[str, Any]]:
        nonlocal done
        finished = []
        for future in as_completed(futures):
            result = future.result()
            finished.append(result)
            method = next(m for m in METHODS if m.title == result["method"])
            done += method.share
            left = (time.perf_counter() - start) * (total - done) / done
            log(
                f"[{done / total:4.0%}] {method.title}, seed {result['seed']}: "
                f"mAP {100 * result['mAP']:.1f} %, {result['seconds']:.0f} s; "
                f"about {left / 60:.1f} min left"
            )
        results.extend(finished)
        return finished

    log(f"runs: {num_jobs} at a time, their output goes to {work_dir / 'runs.log'}")
    with ProcessPoolExecutor(
        num_jobs, get_context("spawn"), initializer=_start_worker, initargs=(work_dir / "runs.log",)
    ) as pool:
        # Short and long runs alternate, so that no core is idle before the last ones.
        ssprl, swav = make(SSPRL), make(SWAV_EPOCHS)
        first = [ssprl[0], *swav, *ssprl[1:], *make(RANDOM)]
        finished = finish([pool.submit(execute, run) for run in first])
        epochs = _epochs_in_equal_time(finished)
        finish([pool.submit(execute, run) for run in make(SWAV_TIME, epochs)])
    table = format_table(results)
    (work_dir / "table.md").write_text(table + "\n")
    _write_csv(results, work_dir / "results.csv")
    pictures = _draw(ssprl[0], work_dir)
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


def execute(run: Run) -> dict[str, Any]:
    """Train and probe one run, or return the result that it left before.

    A run that was stopped half-way starts again: its time would not compare.
    """
    if run.result_file.exists():
        return json.loads(run.result_file.read_text())
    from .engine.launch import prepare_train_config
    from .engine.launch import run as launch
    from .evaluation import linear_probe

    shutil.rmtree(run.work_dir, ignore_errors=True)
    config = shipped(run.method.config)
    images = run.scenes / "coco" / "train2014"
    options: dict[str, Any] = {
        "randomness.seed": run.seed,
        "train_dataloader.dataset.data_root": str(images),
    }
    if run.epochs is not None:
        options["train_cfg.max_epochs"] = options["param_scheduler.0.T_max"] = run.epochs
    weights: str | Path = "random"
    epochs, seconds = 0, 0.0
    if run.method.trains:
        cfg = prepare_train_config(config, work_dir=run.work_dir, cfg_options=options)
        start = time.perf_counter()
        launch(cfg, "train")
        seconds = time.perf_counter() - start
        epochs = cfg.train_cfg.max_epochs
        weights = run.work_dir / f"{config.stem}_backbone.pth"
    score = linear_probe(
        weights,
        run.scenes / "coco",
        config=config,
        image_px=SIZE_PX,
        seed=run.seed,
        progress=False,
    )
    result = {
        "method": run.method.title,
        "seed": run.seed,
        "mAP": score["mAP"],
        "epochs": epochs,
        "seconds": seconds,
    }
    run.work_dir.mkdir(parents=True, exist_ok=True)
    run.result_file.write_text(json.dumps(result, indent=2) + "\n")
    return result


def format_table(results: list[dict[str, Any]]) -> str:
    """Return the results as a Markdown table, mAP in percent as mean and deviation over seeds."""
    head = ("pre-training", "epochs", "seconds", "mAP % per seed", "mAP %", "against random")
    rows = [head, tuple("---" for _ in head)]
    chance = statistics.mean(r["mAP"] for r in results if r["method"] == RANDOM.title)
    for method in METHODS:
        runs = sorted((r for r in results if r["method"] == method.title), key=lambda r: r["seed"])
        scores = [100 * r["mAP"] for r in runs]
        spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
        mean = statistics.mean(scores)
        rows.append(
            (
                method.title,
                str(runs[0]["epochs"]),
                f"{statistics.mean(r['seconds'] for r in runs):.0f}",
                " / ".join(f"{score:.1f}" for score in scores),
                f"{mean:.1f} ± {spread:.1f}",
                f"{mean - 100 * chance:+.1f}" if method.trains else "",
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines[1] = "|" + "|".join("-" * (w + 2) for w in widths) + "|"
    return "\n".join(lines)


def _epochs_in_equal_time(results: list[dict[str, Any]]) -> int:
    """Epochs of SwAV that take as long as SS-PRL's, by the times that both took."""

    def mean(method: Method, key: str) -> float:
        return statistics.mean(r[key] for r in results if r["method"] == method.title)

    per_epoch = mean(SWAV_EPOCHS, "seconds") / mean(SWAV_EPOCHS, "epochs")
    return max(1, round(mean(SSPRL, "seconds") / per_epoch))


def _write_csv(results: list[dict[str, Any]], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(results[0]))
        writer.writeheader()
        writer.writerows(sorted(results, key=lambda r: (r["method"], r["seed"])))


def _draw(run: Run, work_dir: Path) -> list[Path]:
    from .visualization import draw_losses, draw_views

    image = sorted((run.scenes / "coco" / "val2014").glob("*.jpg"))[0]
    figures = {
        "views.png": draw_views(shipped(SSPRL_CONFIG), image),
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
