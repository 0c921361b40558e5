"""What a pre-training will take: hours, memory, disk; whether it is too long, or does not fit."""

import os
import sys
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..console.durations import format_hours
from ..console.wording import counted
from ..errors import UserRuntimeError
from ..features.probe_hook import probe_interval
from ..system.outputs import format_bytes, free_bytes, num_checkpoints
from .result import Pace, Profile

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
    num_backbones: int = 1  # files of the backbone's weights: the last ones, and the best
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
    raise UserRuntimeError(f"{too_long}{shorter}, yes (--yes) starts it all the same.")
