"""Start a pre-training in a work dir, or go on with the one that it holds."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config

from ..engine.launch import prepare_train_config, run
from ..errors import (
    UserFileExistsError,
    UserFileNotFoundError,
    UserRuntimeError,
    UserValueError,
    called,
)
from ..outputs import check_folder, write_whole
from ..shipped import shipped
from . import forecast, pace
from .config import make_config
from .methods import METHODS
from .recipe import Recipe, describe


@called("DIR")
def pretrain(
    images: str,
    work_dir: str | Path | None = None,
    *,
    resume: bool = False,
    yes: bool = False,
    verbose: bool = False,
    log: Callable[[str], object] = print,
    **options: Any,
) -> Path | None:
    """Train on a folder of images with a recipe that suits them, or go on with such a training.

    Args:
        images: Folder of images or of tar files, or one tar file.
        work_dir: Folder of the run; None takes work_dirs/pretrain_<name of ``images``>.
        resume: Go on with the run in the work dir, with the config that it holds.
        yes: Start even if it takes more than 12 h on a CPU.
        verbose: Show the environment, the config and the hooks too.
        log: Receives what the run will be and what it will take.
        options: Of ``make_config``, for a new run only.

    Returns:
        The backbone's weights. None if a person at the terminal finds the run too long; then
        nothing was written.

    Raises:
        FileExistsError: A new run, and the work dir holds files.
        FileNotFoundError: No such images, or no run to go on with.
        ValueError: Images or an option that nothing can be trained with, or options for a run that
            has a recipe.
        RuntimeError: A run too long for a CPU, and nobody there to be asked; too little memory; or
            processes that failed.
    """
    folder = Path(work_dir or f"work_dirs/pretrain_{Path(images).resolve().name}")
    if resume:
        config = config_of_run(folder, images)
        if options:
            flags = ", ".join("--" + name.replace("_", "-") for name in options)
            raise UserValueError(
                f"--resume takes the recipe from {config}; leave {flags} out, or start a new run."
            )
    else:
        refuse_used(folder)
        cfg, recipe, usable = make_config(images, **options)
        log("\n".join([describe(recipe, images), *(f"warning: {w}" for w in usable.warnings)]))
        log("timing some steps ...")
        expected = forecast_run(cfg, recipe)
        log(expected.line)
        if not forecast.may_start(expected, yes=yes):
            return None
        config = folder / f"{recipe.method.key}_{recipe.backbone}.py"
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(config, cfg.pretty_text)
        log(f"config: {config}")
    train(config, folder, resume=resume, verbose=verbose)
    return folder / f"{config.stem}_backbone.pth"


def refuse_used(work_dir: Path) -> None:
    """Raise FileExistsError if a work dir holds anything or is a file; say whose run it holds.

    Two folders of one name share their default work dir: a digest of the path in it would keep them
    apart, and nobody could type or guess where the weights are.
    """
    check_folder(work_dir)
    if work_dir.is_dir() and any(work_dir.iterdir()):
        configs = _configs_of_runs(work_dir)
        root = _images_of_run(configs[0]) if len(configs) == 1 else ""
        of, which = (f" of the run on {root}", f"that run by --resume with DIR {root}")
        raise UserFileExistsError(
            f"the work dir must be new or empty, but {work_dir} holds files{of if root else ''}; "
            f"go on with {which if root else 'its run by --resume'}, or give another --work-dir."
        )


def config_of_run(work_dir: Path, images: str) -> Path:
    """Find the config of the run on ``images`` that a work dir holds.

    Raises:
        FileNotFoundError: No config, or several.
        ValueError: The run is about other images.
    """
    configs = _configs_of_runs(work_dir)
    if len(configs) != 1:
        raise UserFileNotFoundError(
            f"--resume needs the config of one run in {work_dir}, but found {len(configs)}; "
            "give the run's --work-dir, or leave --resume out to start."
        )
    root = _images_of_run(configs[0])
    if Path(root) != Path(images).resolve():
        raise UserValueError(
            f"--resume goes on with the run's own images, {root}, but DIR is {images}; "
            "give that folder, or start a new run with another --work-dir."
        )
    return configs[0]


def _configs_of_runs(work_dir: Path) -> list[Path]:
    return [path for key in METHODS for path in sorted(work_dir.glob(f"{key}_*.py"))]


def _images_of_run(config: Path) -> str:
    return Config.fromfile(config).train_dataloader.dataset.data_root


def forecast_run(cfg: Config, recipe: Recipe) -> forecast.Forecast:
    """Time some steps of a run, and multiply."""
    return forecast.Forecast(
        pace.measure_pace(cfg, amp=torch.cuda.is_available(), num_devices=recipe.num_devices),
        epochs=recipe.epochs,
        steps_per_epoch=recipe.steps_per_epoch,
        checkpoint=cfg.default_hooks.checkpoint,
    )


def train(config: Path, work_dir: Path, *, resume: bool, verbose: bool) -> None:
    """Train on all GPUs, one process for each, or here on a CPU.

    Raises:
        RuntimeError: One of several processes failed.
    """
    num_gpus = torch.cuda.device_count()
    if num_gpus > 1:
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={num_gpus}"]
        command += ["--standalone", str(shipped("tools/train.py")), str(config)]
        command += ["--work-dir", str(work_dir), "--launcher", "pytorch", "--amp"]
        command += ["--resume"] * resume + ["--verbose"] * verbose
        status = subprocess.run(command).returncode
        if status:
            raise UserRuntimeError(
                f"all {num_gpus} processes must end without an error, but torch.distributed.run "
                f"ended with exit code {status}; see the first error above, mend it, and go on "
                "by --resume."
            )
        return
    cfg = prepare_train_config(
        config, work_dir=work_dir, resume="auto" if resume else None, amp=num_gpus > 0
    )
    run(cfg, "train")
