"""What Python says up to the first step's end, as one line for the user; the log has the traceback.

The static checks have passed by then. What is left are values that a part does not take, such as
``depth=19``, types where no registry is known for certain, and parts that do not fit each other,
such as layers of other widths, which only the first step tells.
"""

import logging
import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, NoReturn

import torch
from mmengine.config import Config
from mmengine.dist import get_world_size
from mmengine.hooks import Hook
from mmengine.logging import MMLogger

from ..errors import UserError, UserOSError, UserTypeError, UserValueError
from ..system.processes import is_lost
from .overrides import walk_used
from .reading import add_place, one_line, refuse

_UNEXPECTED = re.compile(r"(.+?)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w+)'")
_MISSING = re.compile(r"(.+?)(?:\.__init__)?\(\) missing \d+ required .*arguments?: (.+)")
_NO_FIELD = re.compile(r"'ConfigDict' object has no attribute '(\w+)'")
_UNREGISTERED = re.compile(r"['\"]?(\S+) is not in the (\S+) registry")
_KEYS = {
    "build_train_loop": "train_cfg",
    "build_val_loop": "val_cfg",
    "build_test_loop": "test_cfg",
    "build_optim_wrapper": "optim_wrapper",
    "build_param_scheduler": "param_scheduler",
    "_check_scheduler_cfg": "param_scheduler",
    "scale_lr": "auto_scale_lr",
    "build_visualizer": "visualizer",
    "build_log_processor": "log_processor",
    "build_logger": "log_level",
    "wrap_model": "model_wrapper_cfg",
    "register_default_hooks": "default_hooks",
    "register_custom_hooks": "custom_hooks",
    "setup_env": "env_cfg",
    "set_randomness": "randomness",
    "load_or_resume": "load_from",
}
"""What methods of mmengine's runner build."""
_EQUAL = {
    "build_dataloader": ("dataloader", ("train_dataloader", "val_dataloader", "test_dataloader")),
    "build_evaluator": ("evaluator", ("val_evaluator", "test_evaluator")),
}
"""The same for those that build one of several: their argument, and which keys may hold it."""


class _Part(NamedTuple):
    """A part of a config that failed.

    Attributes:
        key: Dotted; empty if nobody knows.
        spec: What it holds.
        is_made: Whether it was there already, and failed at work.
    """

    key: str
    spec: Mapping | None
    is_made: bool = False


class FirstStepHook(Hook):
    """Knows whether the parts of a run have worked together once.

    Attributes:
        is_done: Whether a step of training or test has ended.
    """

    priority = "LOWEST"
    is_done = False

    def after_train_iter(self, *args: Any, **kwargs: Any) -> None:
        """Note the step of a training."""
        self.is_done = True

    def after_test_iter(self, *args: Any, **kwargs: Any) -> None:
        """Note the step of a test."""
        self.is_done = True


@contextmanager
def explain_build_errors(cfg: Config, first_step: FirstStepHook | None = None) -> Iterator[None]:
    """Name the key of the config whose part fails, and write the traceback to the log.

    A want of the device's memory passes, and that another process has ended.

    Args:
        cfg: What is built.
        first_step: Errors pass once it is done: from there on they are bugs.

    Raises:
        TypeError, ValueError, OSError: In one line.
    """
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        is_done = first_step is not None and first_step.is_done
        if is_done or (get_world_size() > 1 and is_lost(error)):
            raise
        _explain(cfg, error)
        raise


def _explain(cfg: Config, error: Exception) -> None:
    """Raise the one line; return if the error says all already."""
    cause = error.__cause__ or error.__context__
    is_mine = isinstance(error, UserError)
    if isinstance(cause, UserError) and not is_mine and str(cause) in str(error):
        _explain(cfg, cause)  # without what mmengine adds: the hook
        raise cause
    key, spec, is_made = _find_part(cfg, error)
    text = str(error)
    if isinstance(error, UserError):
        add_place(error, cfg, key)
        return
    if isinstance(error, OSError) and not key:
        return
    missing = _MISSING.match(text) if isinstance(error, TypeError) else _NO_FIELD.match(text)
    lost = error.args[0] if isinstance(error, KeyError) and error.args else None
    if not is_made and (found := _UNEXPECTED.match(text)):
        owner, name = found.groups()
        _raise(
            cfg, error, f"{key}.{name}", f"{owner} has no such field; correct it.", UserTypeError
        )
    if missing and not is_made:
        *owners, names = missing.groups()
        owner = owners[0].rpartition(".")[2] if owners else "it"
        key = key or _KEYS.get(owner, "")
        _raise(cfg, error, key, f"{owner} needs {names}, but the config does not set it; add it.")
    if found := _UNREGISTERED.search(text):
        name, registry = found.groups()
        _raise(
            cfg,
            error,
            f"{key}.type" if key else "",
            f"{name!r} is not in the registry {registry}; correct its spelling"
            f"{'' if cfg.get('default_scope') else ', set default_scope'}, or name the module that "
            "registers it in custom_imports.",
        )
    is_field = isinstance(lost, str) and lost.isidentifier() and not is_made
    if is_field and spec is not None and lost not in spec:
        _raise(cfg, error, key, f"it needs {lost!r}, but the config does not set it; add it.")
    field = _named_field(spec or {}, text)
    kind = UserOSError if isinstance(error, OSError) else UserValueError
    log = _log_traceback(cfg, error)
    where = f" (traceback in {log})" if log else ""
    path = ".".join(filter(None, (key, field)))
    _raise(cfg, error, path, f"{one_line(error)}; correct it{where}.", kind)


def _raise(
    cfg: Config,
    error: Exception,
    key: str,
    reason: str,
    kind: type[UserError] = UserValueError,
) -> NoReturn:
    try:
        refuse(cfg, key, reason, kind)
    except UserError as explained:
        raise explained from error


def _find_part(cfg: Config, error: Exception) -> _Part:
    """Return the innermost part that failed."""
    # Of the parts that are alike the one that a training uses comes first.
    parts = sorted(walk_used(cfg), key=lambda part: part[0].startswith("test_"))
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        module = str(frame.f_globals.get("__name__"))
        name = frame.f_code.co_name
        if name != "__init__":  # in which it has nothing yet to know it by
            part = _part_of_object(parts, frame.f_locals.get("self"))
            if part is not None:
                return part
        if module.startswith("torch.utils.data") and name == "__next__":
            return _Part(_loader_in_use(frame), None, is_made=True)
        if not module.startswith("mmengine."):
            continue
        if name == "build_from_cfg" and isinstance(frame.f_locals.get("cfg"), Mapping):
            spec = frame.f_locals["cfg"]
            key = _most_equal(parts, spec)
            if key:
                return _Part(key, spec)
        elif name in _EQUAL:
            argument, keys = _EQUAL[name]
            spec = frame.f_locals.get(argument)
            found = next((key for key in keys if cfg.get(key) == spec), keys[0])
            return _Part(found, spec if isinstance(spec, Mapping) else None)
        elif name in _KEYS:
            spec = cfg.get(_KEYS[name])
            return _Part(_KEYS[name], spec if isinstance(spec, Mapping) else None)
    return _Part("", None)


def _part_of_object(parts: list[tuple[str, Any]], owner: Any) -> _Part | None:
    """Return the part from which an object was made, if any."""
    names = {base.__name__ for base in type(owner).__mro__} - {"object"}
    made = [
        _Part(key, part, is_made=True)
        for key, part in parts
        if isinstance(part, Mapping) and str(part.get("type")).rpartition(".")[2] in names
    ]

    def equal(part: _Part) -> int:
        fields = part.spec.items() if part.spec else ()
        values = ((getattr(owner, str(field), None), value) for field, value in fields)
        return sum(type(own) is type(value) and own == value for own, value in values)

    return max(made, key=equal, default=None)


def _most_equal(parts: list[tuple[str, Any]], spec: Mapping) -> str:
    """Return the key of the part from which a dict was made; its builder may have changed it."""

    def equal(part: Mapping) -> tuple[int, int]:
        shared = sum(field in spec and spec[field] == value for field, value in part.items())
        return shared, -len(part)

    same_type = [
        (key, part)
        for key, part in parts
        if isinstance(part, Mapping) and "type" in part and part["type"] == spec.get("type")
    ]
    return max(same_type, key=lambda item: equal(item[1]), default=("", None))[0]


def _named_field(spec: Mapping, text: str) -> str:
    """Return the only field that an error names by its name or by its value, if any."""
    fields = {str(name): value for name, value in spec.items() if name != "type"}
    named = [name for name in fields if re.search(rf"\b{re.escape(name)}\b", text)]
    valued = [
        name
        for name, value in fields.items()
        if isinstance(value, int | float | str)
        and re.search(rf"(?<![\w.]){re.escape(str(value))}(?![\w.])", text)
    ]
    return next((found[0] for found in (named, valued) if len(found) == 1), "")


def _loader_in_use(frame: FrameType | None) -> str:
    while frame is not None and frame.f_code.co_name not in ("run", "run_epoch"):
        frame = frame.f_back
    loop = type(frame.f_locals.get("self")).__name__ if frame else ""
    return "test_dataloader" if loop.startswith("Test") else "train_dataloader"


def _log_traceback(cfg: Config, error: Exception) -> Path | None:
    """Write a traceback into the run's log file; None if the run has none yet."""
    work_dir = Path(cfg.get("work_dir") or ".").resolve()
    for handler in MMLogger.get_current_instance().handlers:
        if isinstance(handler, logging.FileHandler):
            path = Path(handler.baseFilename)
            if work_dir in path.resolve().parents:
                lines = "".join(traceback.format_exception(error))
                record = {"msg": lines, "levelno": logging.ERROR, "levelname": "ERROR"}
                handler.handle(logging.makeLogRecord(record))
                return path
    return None
