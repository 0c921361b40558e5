"""The live line: what a command is doing now, and for how long.

On a terminal it is one line that changes; elsewhere it is lines that become rarer. Of nested work
only the innermost is shown.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from threading import Event, Thread

from .wording import CONSOLE_WIDTH, printable

_LEAST_S = 9.0
"""Seconds between the first lines if stderr is not a terminal."""
_MOST_S = 300.0
_ERASE = "\r\x1b[K"
_shown: list[object] = []
"""The work in progress, the innermost last."""
_newest_line_s = 0.0
"""When a line was last printed, by ``time.monotonic``."""


def rarer_s(elapsed_s: float, least_s: float = _LEAST_S) -> float:
    """Return the seconds until the next line of work that has taken ``elapsed_s``."""
    return min(_MOST_S, max(least_s, elapsed_s / 10))


def clear_live_line() -> None:
    """Erase the live line, if there is one, because another line is printed now."""
    global _newest_line_s
    _newest_line_s = time.monotonic()
    if _shown and sys.stderr is not None and sys.stderr.isatty():
        print(_ERASE, end="", file=sys.stderr, flush=True)


@contextmanager
def at_work(what: Callable[[], str] | str) -> Iterator[None]:
    """Show on stderr how long work has taken, and what is done now.

    A terminal updates one line every second. Other streams get a line after nine seconds without
    any other line, later after a tenth of the time so far, at most every five minutes.
    """
    if sys.stderr is None:  # closed
        yield
        return
    is_terminal = sys.stderr.isatty()
    has_ended = Event()
    start_s = time.monotonic()

    def show(place: object) -> None:
        while not has_ended.wait(min(1.0, _LEAST_S)):
            now_s = time.monotonic()
            elapsed_s = now_s - start_s
            is_due = now_s - max(start_s, _newest_line_s) >= rarer_s(elapsed_s, _LEAST_S)
            if place is _shown[-1] and (is_terminal or is_due):
                _print_progress(what if isinstance(what, str) else what(), elapsed_s, is_terminal)

    with innermost() as place:
        thread = Thread(target=show, args=(place,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            has_ended.set()
            thread.join()
            if is_terminal:
                print(_ERASE, end="", file=sys.stderr, flush=True)


@contextmanager
def innermost() -> Iterator[object]:
    """Hide the progress of the work around; threads may end in another order."""
    place = object()
    _shown.append(place)
    try:
        yield place
    finally:
        _shown.remove(place)


def _print_progress(text: str, elapsed_s: float, is_terminal: bool) -> None:
    """Print a line of progress with the time that it has taken."""
    global _newest_line_s
    seconds = f" {elapsed_s:.0f} s"
    columns = get_terminal_size().columns - 1 if is_terminal else CONSOLE_WIDTH
    line = f"{printable(text)[: columns - len(seconds)]}{seconds}"
    if is_terminal:
        print(f"\r{line}", end="\x1b[K", file=sys.stderr, flush=True)
        return
    _newest_line_s = time.monotonic()
    print(line, file=sys.stderr, flush=True)
