"""Errors between building a config and the end of the first step, as one line.

These are values that a part refuses, such as ``depth=19``, and parts that do not fit each other.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from torch.distributed import DistError

from ..console.messages import is_of_shared_memory
from ..errors import UserError, UserOSError, UserValueError
from .keys import walk_used
from .reading import add_place, one_line, placed, remedy_at


class FirstStepHook(Hook):
    """Sets ``is_done`` after the first step of a training or test."""

    priority = "LOWEST"
    is_done = False

    def after_train_iter(self, *args: Any, **kwargs: Any) -> None:
        """Set ``is_done``."""
        self.is_done = True

    after_test_iter = after_train_iter


@contextmanager
def explain_build_errors(cfg: Config, first_step: FirstStepHook | None = None) -> Iterator[None]:
    """Turn errors into one line, with the config key if a registry was building the part.

    Passed on unchanged: out of memory, also shared memory, errors of torch.distributed, OSErrors of
    no part of the config, and everything after ``first_step`` is done, which is a bug.

    Raises:
        TypeError, ValueError, OSError: In one line.
    """
    try:
        yield
    except (torch.OutOfMemoryError, DistError):
        raise
    except Exception as error:
        if (first_step is not None and first_step.is_done) or is_of_shared_memory(error):
            raise

        cause = error.__cause__ or error.__context__
        if isinstance(cause, UserError) and str(cause) in str(error):
            error = cause  # mmengine adds the name of the hook

        key = _key_of(cfg, getattr(error, "built_from", None))
        if isinstance(error, UserError):
            add_place(error, cfg, key)
            raise error
        if isinstance(error, OSError) and not key:
            raise
        kind = UserOSError if isinstance(error, OSError) else UserValueError
        raise kind(placed(cfg, key, f"{one_line(error)}; {remedy_at(key)}")) from error


def _key_of(cfg: Config, spec: Any) -> str:
    """Return the key of the part that a dict was made from, "" if unknown.

    Builders may have added fields. Of equal parts, the one that a training uses comes first.
    """
    found = [
        (len(part), not key.startswith("test_"), key)
        for key, part in walk_used(cfg)
        if isinstance(part, Mapping) and isinstance(spec, Mapping) and _is_within(part, spec)
    ]
    return max(found, key=lambda item: item[:2], default=(0, False, ""))[2]


def _is_within(part: Mapping, spec: Mapping) -> bool:
    return bool(part) and all(key in spec and spec[key] == part[key] for key in part)
