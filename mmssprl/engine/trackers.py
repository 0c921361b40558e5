"""Where the scalars of a run go beside its own log: TensorBoard, Weights & Biases."""

import importlib.util
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ..errors import UserRuntimeError


def check_trackers(names: Iterable[str]) -> None:
    """Check that the packages of 'tensorboard' and 'wandb' are there, where they are among names.

    Raises:
        RuntimeError: One is not installed.
    """
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise UserRuntimeError(
                f"--{name} needs the package {name}, but it is not installed; pip install {name}."
            )


def use_trackers(cfg: Config, names: Collection[str]) -> None:
    """Add mmengine's backends to the config's visualizer, where it has none of the kind.

    Args:
        cfg: Of a run, with its ``work_dir``.
        names: As for ``check_trackers``.

    Raises:
        RuntimeError: As ``check_trackers``.
    """
    check_trackers(names)
    for name in names:
        visualizer = cfg.get("visualizer") or {"type": "Visualizer"}
        own = visualizer.get("vis_backends") or [{"type": "LocalVisBackend"}]
        backend = _backend(name, cfg)
        if backend["type"] in [each["type"] for each in own]:
            continue  # mmengine refuses two of a kind
        cfg.vis_backends = [*own, backend]
        cfg.visualizer = {**visualizer, "vis_backends": cfg.vis_backends}


def _backend(name: str, cfg: Config) -> dict[str, Any]:
    if name == "tensorboard":
        return {"type": "TensorboardVisBackend"}
    run = {"project": "mmssprl", "name": Path(cfg.work_dir).name}
    return {"type": "WandbVisBackend", "init_kwargs": run}
