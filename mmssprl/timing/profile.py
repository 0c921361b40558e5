"""Measure where the time of a pre-training step goes, and what loading its images costs."""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.registry import DefaultScope

from ..config.pretrain_checks import check_pretraining
from ..engine.launch import Launcher, run
from ..errors import UserFileNotFoundError, UserValueError
from ..models import PretrainingModel, pretraining_class
from .result import Profile
from .training import MeasuringHook, for_measuring, read_config

TIME_LIMIT_S = 160.0
"""Fewer steps are measured than asked for if they take longer; those that warm up and choose the
threads do not count. With it a CPU run of ResNet-50 stays below four minutes."""


def profile_training(
    config: str | Path,
    *,
    steps: int = 30,
    batch_size: int | None = None,
    launcher: Launcher = "none",
    time_limit_s: float = TIME_LIMIT_S,
    log: Callable[[str], object] = lambda line: None,
    **options: Any,
) -> Profile:
    """Run some steps of a pre-training, from random weights, and split their time.

    The images are loaded first, in this process on one thread, and the steps then take them from
    memory: so a step never waits for its loader here. Nothing is written.

    Args:
        config: Pre-training config.
        steps: Steps to measure >= 1.
        batch_size: Images per process and step; None takes the config's, or a few on a CPU.
        launcher: What started the processes; every one of them calls this.
        time_limit_s: Seconds after which no step begins, but for the least number.
        log: Receives lines of progress.
        options: ``data``, ``cfg_options``, ``amp`` and ``compile``, see ``read_config``.

    Raises:
        FileNotFoundError: No such config or images.
        RuntimeError: ``compile`` where torch.compile cannot work.
        ValueError: No pre-training config, a number out of its range, more images per step than
            there are, a batch that ``model.num_chunks`` does not divide, or ``amp`` without an
            accelerator.
    """
    if steps < 1:
        raise UserValueError(f"--steps must be >= 1, but got {steps}.")
    with (
        # The scope first: the config's model is looked up in it.
        DefaultScope.overwrite_default_scope("mmssprl"),
        TemporaryDirectory() as work_dir,
        torch.random.fork_rng(devices=[]),
    ):
        whole = read_config(config, work_dir=work_dir, launcher=launcher, **options)
        cfg = for_measuring(whole)
        config_batch_size = cfg.train_dataloader.batch_size
        cfg.train_dataloader.batch_size = chosen = choose_batch_size(cfg, batch_size)
        check_pretraining(cfg)  # once more, with this batch
        if batch_size is None and chosen != config_batch_size:
            log(
                f"{chosen} images a step: the config's {config_batch_size} could take minutes on "
                "a CPU; --batch-size sets the number"
            )
        log(f"loading images of {cfg.train_dataloader.dataset.get('data_root')}")
        hook = MeasuringHook(whole, steps, time_limit_s, load=os.getloadavg()[0], log=log)
        try:
            run(cfg, "train", hooks=[hook], keep_record=False)
        except UserFileNotFoundError as error:
            hint = "or give the folder of images by --data."
            raise UserFileNotFoundError(f"{str(error).rstrip('.')}, {hint}") from error
    return hook.profile


def choose_batch_size(cfg: Config, batch_size: int | None) -> int:
    """Return the images per process and step: those that are asked for, or the config's.

    On a CPU, where an image of the full-size configs takes about 5 s a core, these are as few as
    the model can be trained with.
    """
    if batch_size is not None and batch_size < 1:
        raise UserValueError(f"--batch-size must be >= 1, but got {batch_size}.")
    chosen = batch_size or cfg.train_dataloader.batch_size
    if batch_size or get_device() != "cpu":
        return chosen
    method = pretraining_class(cfg) or PretrainingModel
    return min(chosen, method.batch_unit(cfg.model))
