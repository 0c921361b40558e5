"""Progress over items, with their rate and the time left."""

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from .durations import format_hours, format_rate
from .live_line import at_work, innermost

Item = TypeVar("Item")


def watch(
    items: Iterable[Item], description: str, *, total: int | None = None, shown: bool = True
) -> Iterable[Item]:
    """Iterate with a progress bar on stderr, or with lines if stderr is not a terminal.

    ``total`` is for items without a length.
    """
    total = len(items) if total is None and isinstance(items, Sized) else total
    if not shown:
        return iter(items)
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        return _in_lines(items, description, total)
    return _with_bar(items, description, total, console)


def _with_bar(
    items: Iterable[Item], description: str, total: int | None, console: Console
) -> Iterator[Item]:
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _RateColumn(),
        TimeRemainingColumn(),
    ]
    with innermost(has_line=False), Progress(*columns, console=console, transient=True) as progress:
        yield from progress.track(items, total=total, description=description)


class _RateColumn(ProgressColumn):
    """Items per second, as in ``31/s``."""

    def render(self, task: Task) -> Text:
        """Return the rate of the last seconds, or nothing."""
        speed = task.finished_speed or task.speed
        return Text(format_rate(speed) if speed else "")


def _in_lines(items: Iterable[Item], description: str, total: int | None) -> Iterator[Item]:
    number = 0
    start_s = time.monotonic()

    def line() -> str:
        text = f"{description}: {number:,}" + (f" of {total:,}" if total else "")
        if total and number:  # a slow first item gives no estimate
            elapsed_s = time.monotonic() - start_s
            left = format_hours(elapsed_s * (total / number - 1) / 3600)
            text += f", {format_rate(number / elapsed_s)}, about {left} left"
        return text

    with at_work(line):
        for number, item in enumerate(items):  # noqa: B007  the line reads it
            yield item
