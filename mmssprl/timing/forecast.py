"""What a pre-training will take: hours, memory, disk; whether it is too long, or does not fit."""

import os
import sys
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..console.durations import format_hours
from ..console.wording import counted
from ..errors import UserRuntimeError
from ..features.probe_hook import probe_interval
from ..system.outputs import format_bytes, free_bytes, num_checkpoints, require_space
from .pace import Pace
from .result import Profile

MAX_CPU_HOURS = 12
"""A longer run on a CPU starts only if it is asked for: most likely it is a mistake."""


@dataclass(frozen=True)
class Forecast:
    """What a run will take.

    Args:
        pace: Of a step.
        epochs: Passes over the images.
        steps_per_epoch: Steps of one process and epoch.
        checkpoint: ``default_hooks.checkpoint``: ``interval`` in epochs, ``max_keep_ckpts``.
        work_dir: Where the checkpoints go; it need not exist yet.
        num_backbones: Files of the backbone's weights: the last ones, and the best of a probe.
        other_s: Seconds beside epochs and probes: of a report, of validations.
    """

    pace: Pace
    epochs: int
    steps_per_epoch: int
    checkpoint: Mapping[str, Any]
    work_dir: Path
    num_backbones: int = 1
    other_s: float = 0.0

    @property
    def epoch_s(self) -> float:
        """Seconds of an epoch."""
        return self.steps_per_epoch * self.pace.step_s

    @property
    def num_probes(self) -> int:
        """Probes before, during and at the end of the training."""
        if not self.pace.probe_s:
            return 0
        return self.pace.first_probes + -(-self.epochs // probe_interval(self.epochs))

    @property
    def seconds(self) -> float:
        """Of all epochs and probes, and the rest."""
        return self.epochs * self.epoch_s + self.num_probes * self.pace.probe_s + self.other_s

    @property
    def hours(self) -> float:
        """Of all epochs and probes, and the rest."""
        return self.seconds / 3600

    def fitting_epochs(self, seconds: float) -> int:
        """Return epochs that fit into a time with all the rest; 0 if none does.

        They are the most, but where more epochs would come with fewer probes.
        """
        numbers = range(1, int(seconds / self.epoch_s) + 1)
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
    """Return what the whole training of a profiled config will take.

    Args:
        profile: Of some of its steps.
        work_dir: Of the training.

    Returns:
        None if the config counts iterations in place of epochs, or the images fill no step.
    """
    setting = profile.setting
    share = -(-setting.num_images // setting.num_processes)
    steps = share // setting.config_batch_size
    if setting.max_epochs is None or not steps:
        return None
    return Forecast(profile.pace, setting.max_epochs, steps, setting.checkpoint, Path(work_dir))


def may_start(forecast: Forecast, *, yes: bool, ask: Callable[[str], str] = input) -> bool:
    """Whether the run may start: always, unless it takes more than 12 h on a CPU.

    Args:
        forecast: Of the run.
        yes: Whether it was agreed to beforehand.
        ask: Puts the question where there is a terminal, and returns the answer.

    Raises:
        RuntimeError: Too long, and nobody there to be asked.
    """
    if yes or forecast.pace.device != "cpu" or forecast.hours <= MAX_CPU_HOURS:
        return True
    fitting = forecast.fitting_epochs(3600 * MAX_CPU_HOURS)
    too_long = (
        f"a run on a CPU should take at most {MAX_CPU_HOURS} h, but this one would take about "
        f"{format_hours(forecast.hours)}; "
    )
    fewer_epochs = f"--epochs N ({fitting} fit into it), " if fitting else ""
    shorter = f"{fewer_epochs}--backbone resnet18 or fewer images make it shorter"
    if sys.stdin is not None and sys.stdin.isatty():
        answer = ask(f"{too_long}{shorter}. Go on? [y/N] ")
        return answer.strip().lower() in ("y", "yes")
    raise UserRuntimeError(f"{too_long}{shorter}, --yes starts it all the same.")


def check_disk(forecast: Forecast) -> None:
    """Refuse a run whose checkpoints do not fit the disk, as ``require_space``."""
    require_space(forecast.work_dir, forecast.disk_bytes)
