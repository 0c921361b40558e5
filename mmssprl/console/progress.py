"""Progress of long work: a bar with the time left, or the time elapsed."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from shutil import get_terminal_size
from threading import Event, Thread
from typing import TypeVar

from rich.console import Console
from rich.progress import track

from .wording import printable

Item = TypeVar("Item")
_EVERY_S = 9.0
"""Seconds between two lines if stderr is not a terminal."""


def watch(
    items: Iterable[Item], description: str, *, total: int | None = None, shown: bool = True
) -> Iterable[Item]:
    """Iterate with a progress bar on stderr, or with lines if stderr is not a terminal.

    ``total`` is for items without a length.
    """
    console = Console(file=sys.stderr)
    if shown and not console.is_terminal:
        return _in_lines(items, description, total)
    return track(
        items, description, total=total, console=console, transient=True, disable=not shown
    )


def _in_lines(items: Iterable[Item], description: str, total: int | None) -> Iterator[Item]:
    number = 0
    start = time.monotonic()
    total = len(items) if total is None and isinstance(items, Sized) else total

    def line() -> str:
        left = ""
        if total and number:  # a slow first item gives no estimate
            left = f" (about {(time.monotonic() - start) * (total / number - 1):.0f} s left)"
        return f"{description}: {number}{f' of {total}' if total else ''}{left},"

    with at_work(line):
        for number, item in enumerate(items):  # noqa: B007  the line reads it
            yield item


@contextmanager
def at_work(what: Callable[[], str] | str) -> Iterator[None]:
    """Show on stderr how long work of unknown length has taken.

    A terminal updates one line every second; other streams get a line every nine seconds.
    """
    if sys.stderr is None:  # closed
        yield
        return
    is_terminal = sys.stderr.isatty()
    before = "\r" if is_terminal else ""
    after = "\x1b[K" if is_terminal else "\n"
    has_ended = Event()
    start = time.monotonic()

    def show() -> None:
        while not has_ended.wait(1.0 if is_terminal else _EVERY_S):
            text = printable(what if isinstance(what, str) else what())
            seconds = f" {time.monotonic() - start:.0f} s"
            width = get_terminal_size().columns - len(seconds) - 1
            print(f"{before}{text[:width]}{seconds}", end=after, file=sys.stderr, flush=True)

    thread = Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()
        if is_terminal:
            print(f"{before}{after}", end="", file=sys.stderr, flush=True)
