"""What a pre-training will take: hours, memory, disk; and whether that is too long for a CPU."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..durations import format_hours
from ..errors import UserRuntimeError
from .pace import Pace

MAX_CPU_HOURS = 12
"""A longer run on a CPU starts only if it is asked for: most likely it is a mistake."""
_BUSY = 2.0
"""Load per core above which others take a good part of the time."""


@dataclass(frozen=True)
class Forecast:
    """What a run will take.

    Args:
        pace: Of a step.
        epochs: Passes over the images.
        steps_per_epoch: Steps of one process and epoch.
        checkpoint: ``default_hooks.checkpoint``: ``interval`` in epochs, ``max_keep_ckpts``.
    """

    pace: Pace
    epochs: int
    steps_per_epoch: int
    checkpoint: Mapping[str, Any]

    @property
    def hours(self) -> float:
        """Of all epochs."""
        return self.epochs * self.steps_per_epoch * self.pace.step_s / 3600

    @property
    def disk_bytes(self) -> int:
        """The checkpoints that are kept, and the backbone's weights."""
        # The last epoch's checkpoint is saved in any case.
        kept = -(-self.epochs // self.checkpoint.get("interval", 1))
        most = self.checkpoint.get("max_keep_ckpts", -1)
        if most > 0:
            kept = min(most, kept)
        return kept * self.pace.checkpoint_bytes + self.pace.backbone_bytes

    @property
    def line(self) -> str:
        """The forecast in one line."""
        pace = self.pace
        device = f"this CPU ({pace.cores} cores)" if pace.device == "cpu" else "this device"
        line = (
            f"forecast: {self.epochs} epochs, about {format_hours(self.hours)} on {device}, "
            f"{pace.memory_bytes / 1e9:.1f} GB of memory, {self.disk_bytes / 1e6:.0f} MB of "
            "checkpoints"
        )
        notes = []
        if pace.num_timed < pace.batch_size:
            notes.append(f"timed with {pace.num_timed} of the {pace.batch_size} images of a step")
        if pace.load > _BUSY * pace.cores:
            notes.append(f"other work keeps the cores busy, load {pace.load:.1f}: less without it")
        return f"{line} ({'; '.join(notes)})" if notes else line


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
    fitting = int(forecast.epochs * MAX_CPU_HOURS / forecast.hours)
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
