"""The short line that a training prints; the log file has the full one."""

import re
from collections.abc import Mapping

from .durations import format_hours, format_rate

_SLOW_LOADER = 0.1
"""Share of a step's time; the line shows longer waits for images."""


class LogLine(str):
    """A message for the log file and the console.

    Attributes:
        console: Form for the console, usually shorter; None keeps it off the console.
    """

    console: str | None

    def __new__(cls, text: str, console: str | None) -> "LogLine":
        """Create a line from both forms."""
        line = super().__new__(cls, text)
        line.console = console
        return line


def relative_name(loss: str) -> str:
    """Name the relative loss of a term: 'loss_pyramid_s0' gives 'relative_pyramid_s0'."""
    return f"relative{loss.removeprefix('loss')}"


def console_line(values: Mapping[str, float], max_epochs: int, chance: str) -> str:
    """Return the console's form of a log line.

    ``chance`` is the unit of the relative losses, such as 'ln K'.
    """
    head = epoch_head(values["epochs_done"], max_epochs)
    rate = values.get("images_per_second")
    waiting = values.get("data_time", 0) / (values.get("time") or 1)
    tail = [
        format_rate(rate, "images") if rate is not None else "",
        f"data wait {waiting:.0%}" if waiting >= _SLOW_LOADER else "",
        f"{values['memory'] * 2**20 / 1e9:.1f} GB" if "memory" in values else "",
        f"{format_hours(values['eta'] / 3600)} left" if values.get("eta") else "",
    ]
    return "  ".join(filter(None, [head, _losses(values, chance), *tail]))


def epoch_head(epochs_done: float, max_epochs: int) -> str:
    """Return the start of a line: ``epoch  1.50/20``."""
    return f"epoch {epochs_done:>{len(str(max_epochs)) + 3}.2f}/{max_epochs}"


def _losses(values: Mapping[str, float], chance: str) -> str:
    groups: dict[str, list[str]] = {}
    for name, value in values.items():
        if found := re.fullmatch(r"relative_(.+?)(?:_s\d+)?", name):
            groups.setdefault(found[1], []).append(f"{value:.3f}")
    if not groups:
        return f"loss {values['loss']:.3f}" if "loss" in values else ""

    first, *others = groups.items()
    # The first kind of term is the method's own loss and needs no name.
    parts = [f"loss / {chance} {' '.join(first[1])}"]
    return "  ".join(parts + [f"{kind} {' '.join(numbers)}" for kind, numbers in others])
