"""One training of the demonstration, its clock, and its probe."""

import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config.shipped import shipped
from ..datasets.scenes.sample import SIZE_PX
from ..experiments.run import Run, RunOutcome
from ..experiments.workers import Workers
from .methods import DemoRow
from .table import Values, epochs_in_equal_time


@dataclass(frozen=True, eq=False, kw_only=True)
class Training(Run):
    """One training and its probe; with ``needs``, for as long as those of them that are SS-PRL.

    Args:
        method: What is trained.
        seed: Of all randomness.
        scenes: Folder of the sample data.
        workers: Do it.
        epochs: None: the config's.
        probed: Whether the features are evaluated; if not, only the clock is of interest.
    """

    method: DemoRow
    seed: int
    scenes: Path
    workers: Workers
    epochs: int | None = None
    probed: bool = True

    @property
    def is_complete(self) -> bool:
        """Whether it is known without other runs for how many epochs it has to be trained."""
        return super().is_complete and not self.needs

    def settings(self, needed: Sequence[RunOutcome]) -> dict[str, Any]:
        """Return what ``train_and_probe`` is told."""
        results = [outcome.values for outcome in needed]
        return {
            "title": self.method.title,
            "config": self.method.config,
            "trains": self.method.trains,
            "seed": self.seed,
            "epochs": epochs_in_equal_time(results) if needed else self.epochs,
            "probed": self.probed,
        }

    def work(self, needed: Sequence[RunOutcome], threads: int) -> Values:
        """Have a worker do it.

        One that was stopped half-way starts again: its time would not compare.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        return self.workers.call(train_and_probe, self.folder, self.scenes, self.settings(needed))

    def summary(self, values: dict[str, Any]) -> str:
        """Return the score, or the pace that was measured."""
        if values["mAP"] is None:
            return f"{1000 * values['step_seconds']:.0f} ms a step"
        return f"mAP {100 * values['mAP']:.1f} %"


def train_and_probe(folder: Path, scenes: Path, settings: dict[str, Any]) -> Values:
    """Train in this process, and probe what comes out.

    Args:
        folder: Of logs, config, checkpoint and weights.
        scenes: Folder of the sample data.
        settings: Those of ``Training``.

    Returns:
        ``method``, its title; ``seed``; ``mAP`` in [0, 1], or None without a probe; ``epochs``;
        ``steps``; ``step_seconds``, the median over the steps; ``seconds``, the product of both.
    """
    from mmengine.logging import MessageHub

    from ..engine.launch import prepare_train_config
    from ..engine.launch import run as launch
    from ..features import probe

    config = shipped(settings["config"])
    options: dict[str, Any] = {
        "randomness.seed": settings["seed"],
        "train_dataloader.dataset.data_root": str(scenes / "coco" / "train2014"),
    }
    if settings["epochs"] is not None:
        options["train_cfg.max_epochs"] = options["param_scheduler.0.T_max"] = settings["epochs"]
    weights: str | Path = "random"
    epochs, steps, times = 0, 0, []
    if settings["trains"]:
        cfg = prepare_train_config(config, work_dir=folder, cfg_options=options)
        warm_up()
        launch(cfg, "train")
        # Each includes the time in which the step waited for its data.
        hub = MessageHub.get_current_instance()
        times = hub.get_scalar("train/time").data[0].tolist()
        steps = hub.get_info("iter") + 1
        epochs = cfg.train_cfg.max_epochs
        weights = folder / f"{config.stem}_backbone.pth"
    score = None
    if settings["probed"]:
        score = probe(
            weights,
            scenes / "coco",
            config=config,
            image_px=SIZE_PX,
            seed=settings["seed"],
            progress=False,
        ).mAP
    step_seconds = statistics.median(times) if times else 0.0
    return {
        "method": settings["title"],
        "seed": settings["seed"],
        "mAP": score,
        "epochs": epochs,
        "steps": steps,
        "step_seconds": step_seconds,
        "seconds": steps * step_seconds,
    }


def warm_up() -> None:
    """Have the augmentation's kernels in this process, before a clock runs.

    Compiling them takes seconds, once on a machine, or in each process where numba's cache cannot
    be written; a short training would be charged for it more than a long one.
    """
    import torch

    from ..functional.photometric import PhotometricParams, apply_photometric

    view = torch.zeros((1, 3, 8, 8), dtype=torch.uint8)
    apply_photometric(view, PhotometricParams(), mean=(0, 0, 0), std=(1, 1, 1))
