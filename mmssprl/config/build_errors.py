"""What Python says up to the first step's end, as one line for the user.

The static checks have passed by then. What is left are values that a part does not take, such as
``depth=19``, and parts that do not fit each other, such as layers of other widths, which only the
first step tells.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from torch.distributed import DistError

from ..errors import UserError, UserOSError, UserValueError
from .keys import walk_used
from .reading import add_place, one_line, placed


class FirstStepHook(Hook):
    """Knows in ``is_done`` whether a step of training or test has ended."""

    priority = "LOWEST"
    is_done = False

    def after_train_iter(self, *args: Any, **kwargs: Any) -> None:
        """Note the step of a training or a test."""
        self.is_done = True

    after_test_iter = after_train_iter


@contextmanager
def explain_build_errors(cfg: Config, first_step: FirstStepHook | None = None) -> Iterator[None]:
    """Tell what fails in one line, with its key if a registry was building it.

    A want of the device's memory passes, so does what torch says of processes that do not answer,
    and the operating system of anything but a part of the config.

    Once ``first_step`` is done errors pass: from there on they are bugs.

    Raises:
        TypeError, ValueError, OSError: In one line.
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
        raise kind(placed(cfg, key, f"{one_line(error)}; correct it.")) from error


def _key_of(cfg: Config, spec: Any) -> str:
    """Return the key of the part from which a dict was made, empty if nobody knows.

    Its builder may have added fields. Of equal parts, which have the same mistake, that of a
    training comes first.
    """
    found = [
        (len(part), not key.startswith("test_"), key)
        for key, part in walk_used(cfg)
        if isinstance(part, Mapping) and isinstance(spec, Mapping) and _is_within(part, spec)
    ]
    return max(found, key=lambda item: item[:2], default=(0, False, ""))[2]


def _is_within(part: Mapping, spec: Mapping) -> bool:
    return bool(part) and all(key in spec and spec[key] == part[key] for key in part)
