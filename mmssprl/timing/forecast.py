"""What a training will take: hours, memory, disk; whether it is too long, or does not fit."""

import os
import sys
import time
from bisect import bisect_right
from collections.abc import Mapping
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

from ..console.durations import format_hours
from ..console.quiet import quiet_console
from ..console.wording import counted
from ..datasets.tar_images import last_index
from ..engine.launch import prepare_train_config, run
from ..engine.runner import end_workers
from ..errors import UserRuntimeError
from ..features.probe_hook import probe_interval, weights_before
from ..models import is_pretraining, pretraining_class
from ..models.module_backbone import given as given_module
from ..registry import HOOKS
from ..saving.checkpoint_hooks import checkpoint_bytes
from ..system.environment import default_threads, peak_bytes, torch_threads, usable_cores
from ..system.outputs import format_bytes, free_bytes, num_checkpoints
from ..system.processes import call_in_process
from .result import Pace, Profile
from .stopwatch import LoadedSteps
from .training import LEAST_STEPS, MeasuringHook, for_measuring, read_config

MAX_CPU_HOURS = 12
"""A longer run on a CPU starts only if it is asked for: most likely it is a mistake."""


@dataclass(frozen=True)
class Forecast:
    """What a run will take."""

    pace: Pace
    epochs: int
    steps_per_epoch: int  # of one process
    checkpoint: Mapping[str, Any]  # default_hooks.checkpoint: interval in epochs, max_keep_ckpts
    work_dir: Path  # where the checkpoints go; it need not exist yet
    num_backbones: int = 1  # files of weights alone: the backbone's last ones, the best
    other_s: float = 0.0  # seconds beside epochs and probes: of a report, of validations

    @property
    def num_probes(self) -> int:
        """Probes before, during and at the end of the training."""
        if not self.pace.probe_s:
            return 0
        return self.pace.first_probes + -(-self.epochs // probe_interval(self.epochs))

    @property
    def seconds(self) -> float:
        """Seconds of all epochs and probes, and the rest."""
        steps_s = self.epochs * self.steps_per_epoch * self.pace.step_s
        return steps_s + self.num_probes * self.pace.probe_s + self.other_s

    @property
    def hours(self) -> float:
        """The same in hours."""
        return self.seconds / 3600

    def fitting_epochs(self, seconds: float) -> int:
        """Return the most epochs that fit into a time with all the rest; 0 if none does."""
        numbers = range(1, int(seconds / self.steps_per_epoch / self.pace.step_s) + 1)
        return bisect_right(numbers, seconds, key=lambda n: replace(self, epochs=n).seconds)

    @property
    def disk_bytes(self) -> int:
        """The checkpoints that are there at a time, and the backbone's weights."""
        num = num_checkpoints(self.epochs, self.checkpoint)
        return num * self.pace.checkpoint_bytes + self.num_backbones * self.pace.backbone_bytes

    @property
    def line(self) -> str:
        """The forecast in one line."""
        pace = self.pace
        used = f"{counted(pace.threads, 'thread')} on {counted(pace.cores, 'core')}"
        device = f"this CPU ({used})" if pace.device == "cpu" else "this device"
        line = (
            f"forecast: {counted(self.epochs, 'epoch')}, about {format_hours(self.hours)} on "
            f"{device}, {pace.memory_bytes / 1e9:.1f} GB of memory, "
            f"{format_bytes(self.disk_bytes)} of checkpoints, "
            f"{format_bytes(free_bytes(self.work_dir))} free"
        )
        notes = []
        if pace.num_timed < pace.batch_size:
            notes.append(f"timed with {pace.num_timed} of the {pace.batch_size} images of a step")
        # The load is the whole machine's, whatever part of it this process may use.
        machine_cores = os.cpu_count() or 1
        if pace.load > machine_cores:
            cores = counted(machine_cores, "core")
            notes.append(f"unreliable: load {round(pace.load, 1):g} on {cores}")
        return f"{line} ({'; '.join(notes)})" if notes else line


def forecast_profile(profile: Profile, work_dir: str | Path) -> Forecast | None:
    """Return what a profiled training will take; None if it has no epochs, or no image a step."""
    setting = profile.setting
    share = -(-setting.num_images // setting.num_processes)
    steps = share // setting.config_batch_size
    if setting.max_epochs is None or not steps:
        return None
    return Forecast(profile.pace, setting.max_epochs, steps, setting.checkpoint, Path(work_dir))


def may_start(forecast: Forecast, *, yes: bool) -> bool:
    """Whether the run may start: if it takes over 12 h on a CPU, ``yes`` or the answer says so.

    Raises:
        RuntimeError: Too long, and there is no terminal to ask at.
    """
    if yes or forecast.pace.device != "cpu" or forecast.hours <= MAX_CPU_HOURS:
        return True
    fitting = forecast.fitting_epochs(3600 * MAX_CPU_HOURS)
    too_long = (
        f"a run on a CPU should take at most {MAX_CPU_HOURS} h, but this one would take about "
        f"{format_hours(forecast.hours)}; "
    )
    fewer_epochs = f"fewer epochs ({fitting} fit into it), " if fitting else ""
    shorter = f"{fewer_epochs}backbone resnet18 or fewer images make it shorter"
    if sys.stdin is not None and sys.stdin.isatty():
        answer = input(f"{too_long}{shorter}. Go on? [y/N] ")
        return answer.strip().lower() in ("y", "yes")
    raise UserRuntimeError(f"{too_long}{shorter}; yes (--yes) starts it all the same.")


_MOST_STEPS = 10
_LONG_ENOUGH_S = 8.0  # after it no step begins, but for the least number
_VALIDATION_S = 4.0


def measure_pace(cfg: Config, *, amp: bool, num_devices: int) -> Pace:
    """Train some steps of a pre-training or a fine-tuning, without leaving a trace.

    A process of its own does it, with its own random numbers and peak of memory; only a module that
    was given stays in this one. One of ``num_devices`` processes is measured, and no communication.

    Raises:
        RuntimeError: Too little memory: the process was ended, or the device refused.
    """
    method = pretraining_class(cfg)
    given = (amp, num_devices, default_threads(), os.getloadavg()[0], last_index)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "config.py"
        cfg.dump(path)
        try:
            if given_module.get() is not None:
                return _measure(str(path), *given)
            return call_in_process(_measure, str(path), *given)
        except (BrokenProcessPool, torch.OutOfMemoryError) as error:
            remedy = "batch_size or image_px"
            if method is not None:
                makes_up = " (accumulate makes up for it)" if method.takes_num_chunks else ""
                remedy = f"batch_size{makes_up} or use backbone resnet18"
            raise UserRuntimeError(
                "the process that timed some steps was ended, most likely because there is "
                f"not enough memory; lower {remedy}."
            ) from error


def _measure(
    config: str, amp: bool, num_devices: int, threads: int, load: float, index: dict
) -> Pace:
    last_index.update(index)
    with torch_threads(threads), quiet_console(), TemporaryDirectory() as work_dir:
        if not is_pretraining(Config.fromfile(config)):
            return _of_finetuning(config, work_dir, amp, load)
        with DefaultScope.overwrite_default_scope("mmssprl"):
            return _of_pretraining(config, work_dir, amp, num_devices, load)


def _of_pretraining(config: str, work_dir: str, amp: bool, num_devices: int, load: float) -> Pace:
    options = {"train_dataloader.dataset.max_bad_share": 1.0}
    whole = read_config(config, work_dir=work_dir, amp=amp, cfg_options=options)
    watch = MeasuringHook(
        whole, _MOST_STEPS, _LONG_ENOUGH_S, forecasts=True, num_devices=num_devices, load=load
    )
    cfg = for_measuring(whole)
    cfg.log_level = "ERROR"  # training says it all again
    run(cfg, "train", hooks=[watch], keep_record=False)
    pace = watch.profile.pace
    hooks = whole.get("custom_hooks") or []
    probe = next((HOOKS.build(hook) for hook in hooks if hook["type"] == "ProbeHook"), None)
    if probe is None:
        return pace
    with torch_threads(pace.threads):  # as it will be probed
        probe_s = probe.estimate(watch.runner)
    return replace(pace, probe_s=probe_s, first_probes=len(weights_before(cfg)))


def _of_finetuning(config: str, work_dir: str, amp: bool, load: float) -> Pace:
    cfg = for_measuring(prepare_train_config(config, work_dir=work_dir, amp=amp), validates=True)
    cfg.log_level = "ERROR"
    watch = LoadedSteps(least=LEAST_STEPS, most=2 * _MOST_STEPS, max_seconds=_LONG_ENOUGH_S)
    run(cfg, "train", hooks=[watch], keep_record=False)
    batch_size = cfg.train_dataloader.batch_size
    watch.runner.model.eval()
    loader, start = watch.runner.val_loop.dataloader, time.perf_counter()
    with torch.no_grad():  # a part of a validation, without its score
        for num_batches, batch in enumerate(loader, start=1):  # noqa: B007
            watch.runner.model.val_step(batch)
            if time.perf_counter() - start > _VALIDATION_S:
                break
    validation_s = (time.perf_counter() - start) * len(loader) / num_batches
    end_workers(watch.runner)
    return Pace(
        step_s=fmean(watch.seconds),
        num_timed=batch_size,
        batch_size=batch_size,
        memory_bytes=peak_bytes(watch.device),
        checkpoint_bytes=checkpoint_bytes(watch.runner),
        backbone_bytes=sum(each.nbytes for each in watch.runner.model.state_dict().values()),
        device=watch.device,
        cores=usable_cores(),
        threads=torch.get_num_threads(),
        load=load,
        validation_s=validation_s,
    )
