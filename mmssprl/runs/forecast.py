"""Forecast the hours, memory and disk of a training."""

import copy
import math
import time
from collections.abc import Mapping
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.registry import DefaultScope
from torch import nn

from ..config.hooks import find_hook, remove_hooks
from ..console.durations import format_hours
from ..console.live_line import at_work
from ..console.quiet import quiet_console
from ..console.wording import counted
from ..datasets.loader_processes import has_room_for_process
from ..engine.launch import launch, prepare_train_config
from ..engine.runner import end_workers
from ..engine.stopwatch import LoadedSteps, PretrainSteps
from ..errors import UserRuntimeError
from ..models import pretraining_class
from ..models.unwrap import unwrap
from ..saving.checkpoint_hooks import checkpoint_bytes
from ..system.environment import peak_bytes, torch_threads
from ..system.outputs import format_bytes, free_bytes, num_checkpoints
from ..system.processes import call_in_process


@dataclass(frozen=True)
class Pace:
    """Cost of a step of one process."""

    step_s: float  # with the loading of all its images
    num_timed: int  # images per timed step; 0 if none was timed
    batch_size: int  # images per step; ``num_timed`` is smaller if a step takes too long
    memory_bytes: float  # peak of the timed steps: of a GPU, or resident without workers on a CPU
    checkpoint_bytes: int  # model, queues of all processes and optimizer
    backbone_bytes: int  # file of the backbone's weights
    device: str  # 'cpu', 'cuda', ...
    cpu_s: float = 0.0  # CPU time of a step
    validation_s: float = 0.0  # 0 without validation


@dataclass(frozen=True)
class Forecast:
    """Cost of a run."""

    pace: Pace
    epochs: int
    steps_per_epoch: int  # of one process
    checkpoint: Mapping[str, Any]  # default_hooks.checkpoint: interval in epochs, max_keep_ckpts
    work_dir: Path  # where the checkpoints go; it need not exist yet
    num_backbones: int = 1  # files of weights only: the backbone's last, the best
    other_s: float = 0.0  # report, validations, pass of a teacher
    other_bytes: int = 0  # maps of a teacher

    @property
    def seconds(self) -> float:
        """Seconds of the whole run."""
        return self.epochs * self.steps_per_epoch * self.pace.step_s + self.other_s

    def fitting_epochs(self, seconds: float) -> int:
        """Return the most epochs with which the whole run fits into a time; 0 if none does."""
        epoch_s = self.steps_per_epoch * self.pace.step_s
        return max(0, int((seconds - self.other_s) / epoch_s + 1e-9))  # none lost by rounding

    @property
    def disk_bytes(self) -> int:
        """Bytes of the checkpoints that exist at a time, and of the other files."""
        num = num_checkpoints(self.epochs, self.checkpoint)
        weights = num * self.pace.checkpoint_bytes + self.num_backbones * self.pace.backbone_bytes
        return weights + self.other_bytes

    @property
    def line(self) -> str:
        """The forecast in one line."""
        pace = self.pace
        if not pace.num_timed:
            steps = counted(self.epochs * self.steps_per_epoch, "step")
            return f"forecast: none, as timing would take longer than the {steps} of the run"
        device = "this device"
        if pace.device == "cpu":  # other processes change the wall time, but not the CPU time
            work = format_hours(self.epochs * self.steps_per_epoch * pace.cpu_s / 3600)
            device = f"this CPU ({work} of its work)"
        hours = format_hours(self.seconds / 3600)
        kept = "checkpoints and maps" if self.other_bytes else "checkpoints"
        line = (
            f"forecast: {counted(self.epochs, 'epoch')}, about {hours} on {device}, "
            f"at least {pace.memory_bytes / 1e9:.1f} GB of memory, "
            f"{format_bytes(self.disk_bytes)} of {kept}, "
            f"{format_bytes(free_bytes(self.work_dir))} free"
        )
        if pace.num_timed < pace.batch_size:
            line += f" (timed with {pace.num_timed} of the {pace.batch_size} images of a step)"
        return line


_LEAST_STEPS = 3
_MOST_STEPS = 10
_LONG_ENOUGH_S = 8.0  # no step starts later, beyond the least number
_VALIDATION_S = 4.0
_LEAST_TIMED_STEPS = 20  # runs with fewer steps are not timed, as timing would take longer
_FEW_IMAGES = 5_000  # CPU runs that see no more are timed in this process; a new one starts slowly
_ENDLESS = 10**6  # epochs; more steps may be timed than the training has
_WITHOUT_HOOKS = ("ProbeHook", "ContinuationHook")
_WITHOUT = ("runtime_info", "timer", "logger", "param_scheduler", "checkpoint", "sampler_seed")


def measure_pace(
    cfg: Config, *, amp: bool, num_devices: int, num_steps: int, budget_s: float | None = None
) -> Pace:
    """Time some of the ``num_steps`` of a pre-training or fine-tuning; leaves no files.

    They run in a new process, for its peak of memory; short runs on a CPU are timed in this one.
    One of ``num_devices`` processes is timed, without communication. Timing takes at most a tenth
    of the steps and of ``budget_s``. Without a budget, runs of fewer than 20 steps are not timed
    (``num_timed`` is 0). Too little memory is a RuntimeError.
    """
    device = get_device()
    batch_size = cfg.train_dataloader.batch_size
    limit_s = math.inf if budget_s is None else budget_s / 10
    if budget_s is None and num_steps < _LEAST_TIMED_STEPS:
        return Pace(0.0, 0, batch_size, 0.0, 0, 0, device)
    given = (Config(cfg.to_dict()), amp, num_devices, num_steps, limit_s)  # without a file's name
    with at_work("timing some steps"):
        try:
            stays_here = num_steps * batch_size <= _FEW_IMAGES or not has_room_for_process()
            if device == "cpu" and stays_here:
                return _measure(*given)
            return call_in_process(_measure, *given)
        except (BrokenProcessPool, torch.OutOfMemoryError) as error:
            raise UserRuntimeError(
                "the process that timed some steps was killed, probably for lack of memory; lower "
                "batch_size (accumulate makes up for it), or take a smaller backbone or image_px."
            ) from error


def _measure(cfg: Config, amp: bool, num_devices: int, num_steps: int, limit_s: float) -> Pace:
    method = pretraining_class(cfg)
    scope = DefaultScope.overwrite_default_scope("mmssprl" if method else None)
    with scope, quiet_console(), TemporaryDirectory() as work_dir:
        whole = prepare_train_config(cfg, work_dir=work_dir, amp=amp)
        if method is not None:
            return _of_pretraining(whole, method, num_devices, num_steps, limit_s)
        return _of_finetuning(whole, num_steps)


def _of_pretraining(
    whole: Config, method: Any, num_devices: int, num_steps: int, limit_s: float
) -> Pace:
    cfg = _for_timing(whole)
    cfg.train_dataloader.dataset.max_bad_share = 1.0
    watch = PretrainSteps(
        least=_LEAST_STEPS,
        most=_MOST_STEPS,
        max_seconds=_LONG_ENOUGH_S,
        unit=method.batch_unit(cfg.model),
        num_steps=num_steps,
        limit_s=limit_s,
    )
    launch(cfg, "train", hooks=[watch], keep_record=False)
    pace = _pace(watch, unwrap(watch.runner.model).backbone, num_devices)
    cpu_s = pace.cpu_s * watch.batch_size / watch.num_timed
    return replace(pace, step_s=watch.step_s, num_timed=watch.num_timed, cpu_s=cpu_s)


def _of_finetuning(whole: Config, num_steps: int) -> Pace:
    most = max(1, min(2 * _MOST_STEPS, num_steps // 10 - 1))
    watch = LoadedSteps(least=min(_LEAST_STEPS, most), most=most, max_seconds=_LONG_ENOUGH_S)
    validates = whole.val_cfg is not None
    launch(_for_timing(whole, validates=validates), "train", hooks=[watch], keep_record=False)
    validation_s = 0.0
    if validates:
        with torch_threads(whole.get("num_threads")):
            validation_s = _validation_seconds(watch)
    end_workers(watch.runner)
    return replace(_pace(watch, watch.runner.model), validation_s=validation_s)


@torch.no_grad()
def _validation_seconds(watch: LoadedSteps) -> float:
    """Time some batches of a validation, without the score, and extrapolate."""
    model = watch.runner.model.eval()
    loader = watch.runner.val_loop.dataloader
    validation_s = 0.0
    start = time.perf_counter()
    for number, batch in enumerate(loader, start=1):
        model.val_step(batch)
        seconds = time.perf_counter() - start
        validation_s = seconds * len(loader) / number
        if seconds > min(_VALIDATION_S, sum(watch.seconds)):
            break
    return validation_s


def _for_timing(cfg: Config, *, validates: bool = False) -> Config:
    """Return a config for any number of steps that leave no files, without probe and validation.

    The whole network learns, as in most epochs of a training that continues from weights.
    """
    cfg = copy.deepcopy(cfg)
    remove_hooks(cfg, *_WITHOUT_HOOKS)
    teacher_hook = find_hook(cfg, "TeacherHook")
    if teacher_hook is not None:
        teacher_hook["teacher"] = None
    cfg.default_hooks = dict.fromkeys(_WITHOUT)  # None removes a hook
    cfg.param_scheduler = None
    if validates:
        cfg.train_cfg.val_interval = _ENDLESS
    else:
        cfg.val_dataloader = cfg.val_cfg = cfg.val_evaluator = None
    cfg.load_from = None
    cfg.resume = False
    cfg.train_dataloader.drop_last = True
    cfg.train_cfg.max_epochs = _ENDLESS
    cfg.randomness = {"seed": 0}  # equal augmentations, and so equal work, in every run
    cfg.log_level = "ERROR"  # the training logs it again
    cfg.experiment_name = Path(cfg.work_dir).name  # runs of one name would share their files
    return cfg


def _pace(watch: LoadedSteps, backbone: nn.Module, num_devices: int = 1) -> Pace:
    batch_size = watch.loader.batch_size
    return Pace(
        step_s=fmean(watch.seconds),
        num_timed=batch_size,
        batch_size=watch.runner.cfg.train_dataloader.batch_size,
        memory_bytes=peak_bytes(watch.device),
        checkpoint_bytes=checkpoint_bytes(watch.runner, num_devices),
        backbone_bytes=sum(each.nbytes for each in backbone.state_dict().values()),
        device=watch.device,
        cpu_s=watch.cpu_s / len(watch.seconds),
    )
