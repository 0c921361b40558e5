"""What reaches the console: progress, results, and warnings that somebody can act on.

OpenMMLab's packages also log their environment, the whole config and the order of the hooks, which
goes to the log file of the run alone, and print and warn of their own doing, which is left out.
"""

import importlib
import io
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from .wording import printable

_CHATTERING = {"mmcv", "mmpretrain", "mmdet", "mmseg", "pycocotools"}
"""What these print is about their own doing; mmengine logs the scores among it."""

_PACKAGES = {"mmengine", "mmcv", "mmpretrain", "mmdet", "mmseg"}
"""Their notices and Python warnings are about defaults that the shipped configs set on purpose."""

_DEPRECATIONS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)

VERBOSE = "show all that packages print, log and warn of, and where an error comes from"

_verbose = False


@contextmanager
def quiet_console(*, verbose: bool = False) -> Iterator[None]:
    """Keep what nobody can act on from the console.

    These are deprecations, whatever an OpenMMLab package warns of, and what packages print about
    their own doing. Enter it before the first import of one of them. With ``verbose`` the console
    stays as the packages fill it; ``import_quietly`` follows it too. A file's name that is no UTF-8
    is printed with backslashes.
    """
    global _verbose
    before, _verbose = _verbose, verbose
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_some(message: Any, category: Any, filename: str, line: int, *more: Any) -> None:
            if not (_is_of_package(filename) or issubclass(category, _DEPRECATIONS)):
                show(message, category, filename, line, *more)

        if not verbose:
            warnings.showwarning = show_some  # type: ignore[assignment]
        try:
            with nullcontext() if verbose else redirect_stdout(_WithoutChatter(sys.stdout)):  # type: ignore[type-var]
                yield
        finally:
            _verbose = before


def is_verbose() -> bool:
    """Whether the console shows all, as the processes that this one starts are to."""
    return _verbose


def say(text: str) -> None:
    """Print at once, with what would act in a name shown in place of it."""
    print(printable(text), flush=True)


class _WithoutChatter:
    """Standard output without what the packages of ``_CHATTERING`` print."""

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
    """Keep what packages log about themselves off the console; ``LogLine`` is shown.

    With ``tables`` the packages' warnings and ``print_log`` are shown too, such as an evaluation's
    table. A name in a message that is no UTF-8 is written with backslashes.
    """
    for handler in logger.handlers:
        stream = getattr(handler, "stream", None)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if _verbose:
        return
    for handler in logger.handlers:
        if not isinstance(handler, logging.FileHandler):
            handler.addFilter(partial(_is_for_console, tables=tables))
            if not isinstance(handler.formatter, _ShortForms):
                handler.setFormatter(_ShortForms(handler.formatter))


@contextmanager
def errors_alone(logger: logging.Logger) -> Iterator[None]:
    """Log errors alone, where mmengine warns of an interface that it uses itself."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep mmengine from printing three lines about every tensor that it initialises."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)


def import_quietly(name: str) -> None:
    """Import a module that prints, warns or logs what it does not find, such as OneDL's."""
    if _verbose:
        importlib.import_module(name)
        return
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(name)
    finally:
        logging.disable(disabled)


class _ShortForms(logging.Formatter):
    """Shows what a message calls its form for the ``console``, warnings and errors by that word.

    Others are as they were.
    """

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
    """Whether a record is a warning, has a form for the console, or is not of a package's own."""
    if hasattr(record.msg, "console"):
        return record.msg.console is not None
    told = record.funcName == "print_log"
    if not tables and told:
        return record.levelno >= logging.WARNING and _caller() not in _PACKAGES
    is_line = Path(record.pathname).name == "logger_hook.py" and "Exp name" not in str(record.msg)
    is_shown = told or is_line or not _is_of_package(record.pathname)
    return is_shown or (tables and record.levelno >= logging.WARNING)


def _caller() -> str:
    """Return the package of the code that logs what a filter is asked about."""
    frame = sys._getframe(1)
    while frame.f_back:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("logging", "mmengine.logging", __name__)):
            return str(name.partition(".")[0])
        frame = frame.f_back
    return ""


def _is_of_package(filename: str) -> bool:
    return not _PACKAGES.isdisjoint(Path(filename).parts)
