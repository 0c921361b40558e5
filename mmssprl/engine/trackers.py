"""Where the scalars of a run go beside its own log: TensorBoard, Weights & Biases."""

import importlib.util
from collections.abc import Collection
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ..errors import UserRuntimeError


def check_trackers(names: Collection[str]) -> None:
    """Raise RuntimeError unless the packages of these names are there."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise UserRuntimeError(
                f"{name} must be installed to log to it, but it is not; pip install {name}."
            )


def use_trackers(cfg: Config, names: Collection[str]) -> None:
    """Add mmengine's backends to a run's visualizer; ``names`` are of 'tensorboard', 'wandb'.

    Raises:
        RuntimeError: A package is not installed.
    """
    check_trackers(names)
    run = {"project": "mmssprl", "name": Path(cfg.work_dir).name}
    backends: dict[str, dict[str, Any]] = {
        "tensorboard": {"type": "TensorboardVisBackend"},
        "wandb": {"type": "WandbVisBackend", "init_kwargs": run},
    }
    for name in names:
        visualizer = cfg.get("visualizer") or {"type": "Visualizer"}
        own = visualizer.get("vis_backends") or [{"type": "LocalVisBackend"}]
        if backends[name]["type"] not in [each["type"] for each in own]:  # else mmengine refuses
            cfg.vis_backends = [*own, backends[name]]
            cfg.visualizer = {**visualizer, "vis_backends": cfg.vis_backends}
