"""Time some steps of a fine-tuning that is about to start, in a process of their own."""

import contextlib
import os
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.hooks import Hook
from mmengine.runner import Runner

from ..console.quiet import quiet_console
from ..errors import UserRuntimeError
from ..saving.safe_checkpoint_hook import checkpoint_bytes
from ..system.environment import default_threads, usable_cores
from ..system.machine import peak_bytes, reset_peak_bytes
from ..system.one_process import call_in_process
from ..timing.forecast import Forecast
from ..timing.pace import LEAST_STEPS, Pace
from .recipe import Recipe

_LONG_ENOUGH_S = 8.0
_MOST_STEPS = 20
_VALIDATION_S = 4.0


def forecast_run(cfg: Config, recipe: Recipe, work_dir: Path) -> Forecast:
    """Time some steps and some images of the validation, and multiply.

    Args:
        cfg: Config of the training, with its label files.
        recipe: Its numbers.
        work_dir: Its folder, which need not exist yet.

    Raises:
        RuntimeError: The process was ended, most likely for want of memory.
    """
    load = os.getloadavg()[0]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "config.py"
        cfg.dump(path)
        try:
            threads = default_threads()
            step_s, validation_s, values = call_in_process(_measure, str(path), threads)
        except (BrokenProcessPool, torch.cuda.OutOfMemoryError) as error:
            raise UserRuntimeError(
                "some steps must fit into the memory to be timed, but their process was "
                "ended, most likely for want of it; lower --batch-size or --image-px."
            ) from error
    validations = recipe.epochs // recipe.val_interval + 1  # and the scores at the end
    steps = recipe.epochs * recipe.steps_per_epoch
    pace = Pace(
        step_s=step_s + validation_s * validations / steps,
        num_timed=recipe.batch_size,
        batch_size=recipe.batch_size,
        backbone_bytes=0,
        cores=usable_cores(),
        threads=threads,
        load=load,
        **values,
    )
    return Forecast(
        pace,
        epochs=recipe.epochs,
        steps_per_epoch=recipe.steps_per_epoch,
        checkpoint=cfg.default_hooks.checkpoint,
        work_dir=work_dir,
    )


class _Enough(Exception):
    """Ends a training that has been timed."""


class _TimingHook(Hook):
    """Times steps, with all that happens between them, and then the validation of some images."""

    priority = "LOWEST"

    def before_train(self, runner: Runner) -> None:
        self.device = get_device()
        self.times: list[float] = []

    def after_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        if self.device != "cpu":
            torch.get_device_module(self.device).synchronize()
        self.times.append(time.perf_counter())
        if len(self.times) == 1:
            reset_peak_bytes(self.device)
        taken = self.times[-1] - self.times[0]
        num_steps = len(self.times) - 1
        if num_steps == _MOST_STEPS or (num_steps >= LEAST_STEPS and taken > _LONG_ENOUGH_S):
            self.step_s = taken / num_steps
            self.values = {
                "memory_bytes": peak_bytes(self.device),
                "checkpoint_bytes": checkpoint_bytes(runner),
                "device": self.device,
            }
            self.validation_s = self._time_validation(runner)
            raise _Enough

    @torch.no_grad()
    def _time_validation(self, runner: Runner) -> float:
        """Return the seconds of a whole validation, without its score."""
        runner.model.eval()
        loader = runner.val_loop.dataloader
        start = time.perf_counter()
        num_batches = 0
        for batch in loader:
            runner.model.val_step(batch)
            num_batches += 1
            if time.perf_counter() - start > _VALIDATION_S:
                break
        return (time.perf_counter() - start) * len(loader) / num_batches


def _measure(config: str, threads: int) -> tuple[float, float, dict[str, Any]]:
    with quiet_console(), TemporaryDirectory() as work_dir:
        from ..engine.launch import prepare_train_config, run

        torch.set_num_threads(threads)
        cfg = prepare_train_config(config, work_dir=work_dir, amp=torch.cuda.is_available())
        cfg.log_level = "ERROR"  # training says it all again
        cfg.default_hooks.checkpoint = cfg.default_hooks.logger = None
        cfg.train_cfg.max_epochs = 10**6  # however few steps an epoch has
        cfg.param_scheduler = None
        hook = _TimingHook()
        with contextlib.suppress(_Enough):
            run(cfg, "train", hooks=[hook], keep_record=False)
        return hook.step_s, hook.validation_s, hook.values
