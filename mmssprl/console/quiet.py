"""The console shows progress, results, and warnings that a user can act on.

OpenMMLab's packages also log their environment, the whole config and the order of the hooks. These
go to the log file only. What they print or warn about themselves is dropped.
"""

import importlib
import io
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from .live_line import clear_live_line
from .wording import printable

_CHATTERING = {"mmcv", "mmpretrain", "mmdet", "mmseg", "pycocotools"}
"""Packages that print too much; what they print is dropped."""

_PACKAGES = {"mmengine", "mmcv", "mmpretrain", "mmdet", "mmseg"}
"""Packages with notices and warnings about intended settings of shipped configs."""

_DEPRECATIONS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)

VERBOSE = "show all output of packages, and the traceback of an error"

_verbose = False


@contextmanager
def quiet_console(*, verbose: bool = False) -> Iterator[None]:
    """Drop output that a user cannot act on, unless ``verbose``.

    Drops deprecations, and the warnings and prints of OpenMMLab's packages. Enter it before they
    are imported. ``import_quietly`` follows ``verbose`` too.
    """
    global _verbose
    before = _verbose
    _verbose = verbose
    show = warnings.showwarning
    _escape_names(sys.stdout)

    def show_some(message: Any, category: Any, filename: str, *more: Any) -> None:
        if verbose or not (_is_of_package(filename) or issubclass(category, _DEPRECATIONS)):
            show(message, category, filename, *more)

    stdout: Any = sys.stdout if verbose else _WithoutChatter(sys.stdout)
    with warnings.catch_warnings(), redirect_stdout(stdout):
        warnings.showwarning = show_some  # type: ignore[assignment]
        if not verbose:  # names of files may have any characters; finetune reports those of classes
            warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        try:
            yield
        finally:
            _verbose = before


def is_verbose() -> bool:
    """Whether the console shows all output; processes that this one starts follow it."""
    return _verbose


def say(text: str) -> None:
    """Print and flush, with control characters escaped."""
    clear_live_line()
    print(printable(text), flush=True)


class _WithoutChatter:
    """Standard output without the prints of ``_CHATTERING``."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        writer = sys._getframe(1).f_globals.get("__name__", "")
        if writer.partition(".")[0] not in _CHATTERING:
            self._stream.write(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def keep_off_console(logger: logging.Logger, *, tables: bool = True) -> None:
    """Keep the log lines of packages off the console; ``LogLine`` is shown.

    With ``tables``, warnings and ``print_log`` of packages are shown too, such as an evaluation's
    table.
    """
    for handler in logger.handlers:
        _escape_names(getattr(handler, "stream", None))
        if isinstance(handler, logging.FileHandler):
            continue
        if not _verbose:
            handler.addFilter(partial(_is_for_console, tables=tables))
            if not isinstance(handler.formatter, _ShortForms):
                handler.setFormatter(_ShortForms(handler.formatter))
        handler.addFilter(_make_room)


def _escape_names(stream: Any) -> None:
    """Write file names that are not UTF-8 with backslashes."""
    if isinstance(stream, io.TextIOWrapper) and not stream.closed:
        stream.reconfigure(errors="backslashreplace")


@contextmanager
def errors_alone(logger: logging.Logger) -> Iterator[None]:
    """Log errors only: mmengine warns about an interface that it uses itself.

    Not by ``quiet``: the loggers of mmengine would not forget what was off.
    """
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def quiet(level: int = logging.INFO) -> Iterator[None]:
    """Log nothing up to a level: mmengine logs three lines about every tensor it initialises."""
    before = logging.root.manager.disable
    logging.disable(level)
    try:
        yield
    finally:
        logging.disable(before)


def import_quietly(name: str) -> None:
    """Import a module without the output of its import, unless the console is verbose."""
    if _verbose:
        importlib.import_module(name)
        return
    with quiet(logging.WARNING), redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(name)


class _ShortForms(logging.Formatter):
    """Shows a ``LogLine`` in its form for the console, and the level of warnings and errors."""

    def __init__(self, others: logging.Formatter | None) -> None:
        super().__init__()
        self._others = others or logging.Formatter()

    def format(self, record: logging.LogRecord) -> str:
        if form := getattr(record.msg, "console", None):
            return str(form)
        if record.levelno >= logging.WARNING and not record.exc_info:
            return f"{record.levelname.lower()}: {record.getMessage()}"
        return self._others.format(record)


def _is_for_console(record: logging.LogRecord, *, tables: bool) -> bool:
    """Whether the console shows a record."""
    if hasattr(record.msg, "console"):
        return record.msg.console is not None

    is_print_log = record.funcName == "print_log"
    if not tables and is_print_log:
        return record.levelno >= logging.WARNING and _caller() not in _PACKAGES
    is_line = Path(record.pathname).name == "logger_hook.py" and "Exp name" not in str(record.msg)
    is_shown = is_print_log or is_line or not _is_of_package(record.pathname)
    return is_shown or (tables and record.levelno >= logging.WARNING)


def _make_room(record: logging.LogRecord) -> bool:
    """Erase the live line for a record that has passed the other filters."""
    clear_live_line()
    return True


def _caller() -> str:
    """Return the package of the code that logs the current record."""
    frame = sys._getframe(1)
    while frame.f_back:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("logging", "mmengine.logging", __name__)):
            return str(name.partition(".")[0])
        frame = frame.f_back
    return ""


def _is_of_package(filename: str) -> bool:
    return not _PACKAGES.isdisjoint(Path(filename).parts)
