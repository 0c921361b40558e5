"""What Python says up to the first step's end, as one line for the user; the log has the traceback.

The static checks have passed by then. What is left are values that a part does not take, such as
``depth=19``, and parts that do not fit each other, such as layers of other widths, which only the
first step tells.
"""

import logging
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.logging import MMLogger
from torch.distributed import DistError

from ..errors import UserError, UserOSError, UserValueError
from .keys import walk_used
from .reading import add_place, one_line, placed


class FirstStepHook(Hook):
    """Knows in ``is_done`` whether a step has ended."""

    priority = "LOWEST"
    is_done = False

    def _after_iter(self, *args: Any, **kwargs: Any) -> None:
        self.is_done = True


@contextmanager
def explain_build_errors(cfg: Config, first_step: FirstStepHook | None = None) -> Iterator[None]:
    """Tell what fails in one line, with its key if a registry was building it.

    The traceback goes to the log. A want of the device's memory passes, so does what torch says of
    processes that do not answer, and the operating system of anything but a part of the config.
    Once ``first_step`` is done errors pass: from there on they are bugs.
    """
    try:
        yield
    except (torch.OutOfMemoryError, DistError):
        raise
    except Exception as error:
        if first_step is not None and first_step.is_done:
            raise
        cause = error.__cause__ or error.__context__
        if isinstance(cause, UserError) and str(cause) in str(error):
            error = cause  # without what mmengine adds: the hook
        key = _key_of(cfg, getattr(error, "built_from", None))
        if isinstance(error, UserError):
            add_place(error, cfg, key)
            raise error
        if isinstance(error, OSError) and not key:
            raise
        kind = UserOSError if isinstance(error, OSError) else UserValueError
        reason = f"{one_line(error)}; correct it{_log_traceback(cfg, error)}."
        raise kind(placed(cfg, key, reason)) from error


def _key_of(cfg: Config, spec: Any) -> str:
    """Return the key of the part from which a dict was made, to which its builder may have added.

    Of equal parts, which have the same mistake, that of a training comes first.
    """
    found = {
        key: (len(part), not key.startswith("test_"))
        for key, part in walk_used(cfg)
        if isinstance(part, Mapping) and isinstance(spec, Mapping)
        if part and all(name in spec and spec[name] == part[name] for name in part)
    }
    return max(found, key=lambda key: found[key], default="")


def _log_traceback(cfg: Config, error: Exception) -> str:
    """Write a traceback into the run's log file, if there is one yet, and say where it is."""
    work_dir = Path(cfg.get("work_dir") or ".").resolve()
    for handler in MMLogger.get_current_instance().handlers:
        path = Path(handler.baseFilename) if isinstance(handler, logging.FileHandler) else None
        if path and work_dir in path.resolve().parents:  # not that of another run of this process
            lines = "".join(traceback.format_exception(error))
            record = {"msg": lines, "levelno": logging.ERROR, "levelname": "ERROR"}
            handler.handle(logging.makeLogRecord(record))
            return f" (traceback in {path})"
    return ""
