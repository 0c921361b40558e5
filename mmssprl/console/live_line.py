"""The live line: what a command is doing now, and for how long.

On a terminal it is one line that changes; elsewhere it is lines that become rarer. Of nested work
only the innermost is shown.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from shutil import get_terminal_size
from threading import Event, RLock, Thread

from .wording import CONSOLE_WIDTH, printable

_LEAST_S = 9.0
"""Seconds between the first lines if stderr is not a terminal."""
_MOST_S = 300.0
_QUIET_S = 0.2
"""After another line a terminal waits so long, as that line may still be on its way."""
_ERASE = "\r\x1b[K"


@dataclass(eq=False)
class _Work:
    """Work in progress."""

    has_line: bool  # a live line; otherwise it has a bar, which redraws itself


_shown: list[_Work] = []
"""The work in progress, the innermost last."""
_newest_line_s = 0.0
"""When a line was last printed, by ``time.monotonic``."""
_lock = RLock()
"""Is held while a line is printed or erased."""


def rarer_s(elapsed_s: float, least_s: float = _LEAST_S) -> float:
    """Return the seconds until the next line of work that has taken ``elapsed_s``."""
    return min(_MOST_S, max(least_s, elapsed_s / 10))


def clear_live_line() -> None:
    """Erase the live line, if there is one, because another line is printed now."""
    global _newest_line_s
    with _lock:
        _newest_line_s = time.monotonic()
        if _shown and _shown[-1].has_line and _is_terminal():
            _write(_ERASE)


@contextmanager
def at_work(what: Callable[[], str] | str, *, logs: bool = False) -> Iterator[None]:
    """Show on stderr how long work has taken, and what is done now.

    A terminal updates one line every second. Other streams get a line after nine seconds without
    any other line, later after a tenth of the time so far, at most every five minutes. Work that
    ``logs`` has lines of its own at this pace; there a line comes after twice the time. A terminal
    that is closed meanwhile is ignored.
    """
    patience = 2.0 if logs else 1.0
    has_ended = Event()
    start_s = time.monotonic()

    def show(work: _Work) -> None:
        while not has_ended.wait(min(1.0, _LEAST_S)):
            elapsed_s = time.monotonic() - start_s
            with _lock, suppress(OSError):  # of a file that ``what`` reads
                if work is _shown[-1] and _is_due(start_s, patience):
                    _print_progress(what if isinstance(what, str) else what(), elapsed_s)

    with innermost(has_line=True) as work:
        thread = Thread(target=show, args=(work,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            has_ended.set()
            thread.join()
            if _is_terminal():
                _write(_ERASE)


@contextmanager
def innermost(*, has_line: bool) -> Iterator[_Work]:
    """Hide the progress of the work around; threads may end in another order."""
    work = _Work(has_line)
    _shown.append(work)
    try:
        yield work
    finally:
        _shown.remove(work)


def _is_due(start_s: float, patience: float) -> bool:
    """Whether a line of progress is due for work that started at ``start_s``."""
    now_s = time.monotonic()
    if _is_terminal():
        return now_s - _newest_line_s >= _QUIET_S
    return now_s - max(start_s, _newest_line_s) >= patience * rarer_s(now_s - start_s, _LEAST_S)


def _print_progress(text: str, elapsed_s: float) -> None:
    """Print a line of progress with the time that it has taken."""
    global _newest_line_s
    seconds = f", {elapsed_s:.0f} s"
    is_terminal = _is_terminal()
    columns = get_terminal_size().columns - 1 if is_terminal else CONSOLE_WIDTH
    line = f"{printable(text)[: columns - len(seconds)]}{seconds}"
    if is_terminal:
        _write(f"\r{line}\x1b[K")
        return
    _newest_line_s = time.monotonic()
    _write(f"{line}\n")


def _is_terminal() -> bool:
    """Whether stderr is a terminal now; a closed one is none."""
    with suppress(OSError, ValueError, AttributeError):  # None if it was closed at the start
        return sys.stderr.isatty()
    return False


def _write(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):
        print(text, end="", file=sys.stderr, flush=True)
