"""Start a pre-training in a work dir, or go on with the one that it holds."""

import subprocess
import sys
from pathlib import Path

import torch
from mmengine.config import Config

from ..engine.launch import prepare_train_config, run
from ..errors import UserFileExistsError, UserFileNotFoundError, UserValueError
from ..shipped import shipped
from . import pace
from .forecast import Forecast
from .recipe import Recipe


def refuse_used(work_dir: Path) -> None:
    """Raise FileExistsError if a work dir holds anything."""
    if work_dir.is_dir() and any(work_dir.iterdir()):
        raise UserFileExistsError(
            f"the work dir must be new or empty, but {work_dir} holds files; go on with its run "
            "by --resume, or give another --work-dir."
        )


def config_of_run(work_dir: Path, images: str) -> Path:
    """Find the config of the run on ``images`` that a work dir holds.

    Raises:
        FileNotFoundError: No config, or several.
        ValueError: The run is about other images.
    """
    configs = sorted(work_dir.glob("ssprl_*.py"))
    if len(configs) != 1:
        raise UserFileNotFoundError(
            f"--resume needs the config of one run in {work_dir}, but found {len(configs)}; "
            "give the run's --work-dir, or leave --resume out to start."
        )
    root = Config.fromfile(configs[0]).train_dataloader.dataset.data_root
    if Path(root) != Path(images).resolve():
        raise UserValueError(
            f"--resume goes on with the run's own images, {root}, but DIR is {images}; "
            "give that folder, or start a new run with another --work-dir."
        )
    return configs[0]


def forecast_run(cfg: Config, recipe: Recipe) -> Forecast:
    """Time some steps of a run, and multiply."""
    return Forecast(
        pace.measure_pace(cfg, amp=torch.cuda.is_available(), num_devices=recipe.num_devices),
        epochs=recipe.epochs,
        steps_per_epoch=recipe.steps_per_epoch,
        checkpoint=cfg.default_hooks.checkpoint,
    )


def train(config: Path, work_dir: Path, *, resume: bool, verbose: bool) -> int:
    """Train on all GPUs, one process for each, or here on a CPU; returns the exit code."""
    num_gpus = torch.cuda.device_count()
    if num_gpus > 1:
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={num_gpus}"]
        command += ["--standalone", str(shipped("tools/train.py")), str(config)]
        command += ["--work-dir", str(work_dir), "--launcher", "pytorch", "--amp"]
        command += ["--resume"] * resume + ["--verbose"] * verbose
        return subprocess.run(command).returncode
    cfg = prepare_train_config(
        config, work_dir=work_dir, resume="auto" if resume else None, amp=num_gpus > 0
    )
    run(cfg, "train")
    return 0
