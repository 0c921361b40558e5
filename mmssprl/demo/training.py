"""One training of the demonstration, its clock, and its probe."""

import json
import shutil
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..outputs import write_whole
from ..shipped import shipped
from .methods import Method

SIZE_PX = 96
_FIELDS = {"method", "seed", "mAP", "epochs", "steps", "step_seconds", "seconds"}


@dataclass(frozen=True)
class Run:
    """One training and its probe.

    Args:
        method: What is trained.
        seed: Of all randomness.
        work_dir: Folder of the run.
        scenes: Folder of the sample data.
        epochs: None: the config's.
        probed: Whether the features are evaluated; if not, only the clock is of interest.
    """

    method: Method
    seed: int
    work_dir: Path
    scenes: Path
    epochs: int | None = None
    probed: bool = True

    @property
    def result_file(self) -> Path:
        """Written last: its presence means that the run is complete."""
        return self.work_dir / "result.json"

    def read_result(self) -> dict[str, Any] | None:
        """Return the result that the run has left; one of an older version does not count."""
        if not self.result_file.exists():
            return None
        result = json.loads(self.result_file.read_text())
        known = result.keys() == _FIELDS and result["method"] == self.method.title
        return result if known else None


def execute(run: Run) -> dict[str, Any]:
    """Train and probe one run, or return the result that it left before.

    A run that was stopped half-way starts again: its time would not compare.

    Returns:
        ``method``, its title; ``seed``; ``mAP`` in [0, 1], or None without a probe; ``epochs``;
        ``steps``; ``step_seconds``, the median over the steps; ``seconds``, the product of both.
    """
    result = run.read_result()
    if result is not None:
        return result
    from ..engine.launch import prepare_train_config
    from ..engine.launch import run as launch
    from ..evaluation import linear_probe

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
    epochs, times = 0, []
    if run.method.trains:
        cfg = prepare_train_config(config, work_dir=run.work_dir, cfg_options=options)
        warm_up()
        launch(cfg, "train")
        times = _times_of_steps()
        epochs = cfg.train_cfg.max_epochs
        weights = run.work_dir / f"{config.stem}_backbone.pth"
    score = None
    if run.probed:
        score = linear_probe(
            weights,
            run.scenes / "coco",
            config=config,
            image_px=SIZE_PX,
            seed=run.seed,
            progress=False,
        )["mAP"]
    step_seconds = statistics.median(times) if times else 0.0
    result = {
        "method": run.method.title,
        "seed": run.seed,
        "mAP": score,
        "epochs": epochs,
        "steps": len(times),
        "step_seconds": step_seconds,
        "seconds": len(times) * step_seconds,
    }
    run.work_dir.mkdir(parents=True, exist_ok=True)
    write_whole(run.result_file, json.dumps(result, indent=2) + "\n")
    return result


def warm_up() -> None:
    """Have the augmentation's kernels in this process, before a clock runs.

    Compiling them takes seconds, once on a machine, or in each process where numba's cache cannot
    be written; a short training would be charged for it more than a long one.
    """
    import torch

    from ..functional.photometric import PhotometricParams, apply_photometric

    view = torch.zeros((1, 3, 8, 8), dtype=torch.uint8)
    apply_photometric(view, PhotometricParams(), mean=(0, 0, 0), std=(1, 1, 1))


def _times_of_steps() -> list[float]:
    """Seconds of each step of the training that this process has just ended, its data included."""
    from mmengine.logging import MessageHub

    times, _ = MessageHub.get_current_instance().get_scalar("train/time").data
    return times.tolist()
