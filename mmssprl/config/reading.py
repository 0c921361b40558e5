"""Read config files, and report an error of Python or mmengine in one line."""

import traceback
from pathlib import Path
from textwrap import shorten
from typing import NoReturn

from mmengine.config import Config

from ..errors import UserError, UserFileNotFoundError, UserValueError, text_of
from ..system.trusted_modules import search_current_folder
from .shipped import config_file

_MAX_LENGTH = 300
"""Longest quoted message; mmengine may repeat whole dicts of the config."""


def read_config_file(config: str | Path) -> Config:
    """Read a config that a user names (see ``config_file``); errors name file and line."""
    path = config_file(config)
    search_current_folder()  # for custom_imports
    try:
        cfg = Config.fromfile(path)
        list(cfg.values())  # triggers lazy imports now
        return cfg
    except Exception as error:
        raise _explain(error, path) from error


def refuse(cfg: Config, key: str, reason: str, kind: type[UserError] = UserValueError) -> NoReturn:
    """Raise an error that names config file and key; ``key`` may be empty."""
    raise kind(placed(cfg, key, reason))


def add_place(error: UserError, cfg: Config, key: str) -> None:
    """Prefix the message of a part's error with config file and key."""
    if not str(error).startswith(f"{cfg.filename}: "):
        text = text_of(error)
        text = text if "; " in text else f"{text.removesuffix('.')}; {remedy_at(key)}"
        error.args = (placed(cfg, key, text),)
        error.is_placed = True


def one_line(error: BaseException) -> str:
    """Return the message of an error in one line, with its class if that adds information."""
    # str(KeyError) would be its argument in quotes.
    text = error.args[0] if isinstance(error, KeyError) and error.args else text_of(error)
    text = shorten(str(text), _MAX_LENGTH, placeholder=" ...").rstrip(".")
    if isinstance(error, AssertionError) and not text:
        line = traceback.extract_tb(error.__traceback__)[-1].line or ""
        text = f"it must hold that {line.removeprefix('assert ')}"
    plain = type(error) in (ValueError, TypeError, RuntimeError, AssertionError) and text
    return text if plain else f"{type(error).__name__}: {text}".removesuffix(": ")


def placed(cfg: Config, key: str, reason: str) -> str:
    """Return "file: key: reason"."""
    return ": ".join(filter(None, (str(cfg.filename or "config"), key, reason)))


def remedy_at(key: str) -> str:
    """Return the remedy for a value of a config; ``key`` may be empty."""
    return f"change {key or 'the value'} in the file or by --cfg-options."


def _explain(error: Exception, path: Path) -> UserError:
    """Return the error of a config file that cannot be read."""
    kind = UserFileNotFoundError if isinstance(error, FileNotFoundError) else UserValueError
    remedy = "edit the file"
    if isinstance(error, ImportError):
        remedy = "install the module, or add its folder to PYTHONPATH"
        # An error of custom_imports would list all of Python's path.
        error = error.__cause__ if isinstance(error.__cause__, ImportError) else error

    if isinstance(error, SyntaxError):  # mmengine does not say whether the file or a base fails
        remedy = "edit that line"
        if "U+FEFF" in (error.msg or ""):  # as editors on Windows write it, unseen
            remedy = "save the file as UTF-8 without a byte order mark (BOM)"
        return kind(f"{path}: line {error.lineno} of it or of a _base_: {error.msg}; {remedy}.")

    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.name == "<module>" and Path(frame.filename).is_file():
            own = path if Path(frame.filename).absolute() == path.absolute() else frame.filename
            return kind(f"{own}: line {frame.lineno}: {one_line(error)}; {remedy}.")
    return kind(f"{path}: {one_line(error)}; {remedy}.")
