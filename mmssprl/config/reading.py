"""Config files as users write them, and what Python or mmengine says about one, in one line."""

import re
import traceback
from pathlib import Path
from textwrap import shorten
from typing import Any, NoReturn

from mmengine.config import Config

from ..errors import UserError, UserFileNotFoundError, UserValueError, text_of
from .shipped import config_file

_MAX_LENGTH = 300
"""Of what Python or mmengine says, which may repeat whole dicts of the config."""
_LAZY = re.compile(r"(Failed to import .+) in (.+), line (\d+)(?: for (.+))?", re.DOTALL)
"""What mmengine says of an import in a config: what, file, line, and why."""
_READERS = ("_is_lazy_import", "_file2dict", "_parse_lazy_import")
"""mmengine's functions that read one file each, whose path is their argument ``filename``."""


def read_config_file(config: str | Path) -> Config:
    """Read a config that a user names.

    Args:
        config: A file, or ``configs/...`` for a shipped one, see ``config_file``.

    Raises:
        FileNotFoundError: There is no such file, or none that a ``_base_`` names.
        ValueError: The file, or one that it builds on, is not a config: names file and line.
    """
    path = config_file(config)
    try:
        cfg = Config.fromfile(path)
        list(cfg.values())  # imports now what a config with imports would import when it is used
        return cfg
    except Exception as error:
        raise _explain(error, path) from error


def refuse(cfg: Config, key: str, reason: str, kind: type[UserError] = UserValueError) -> NoReturn:
    """Raise the one line for a mistake in a config.

    Args:
        cfg: Whose file is named.
        key: Where it is, dotted; empty if nobody knows.
        reason: What must hold, what was got, and the remedy.
        kind: Of the error.
    """
    raise refusal(cfg, key, reason, kind)


def refusal(
    cfg: Config, key: str, reason: str, kind: type[UserError] = UserValueError
) -> UserError:
    """Return the error that ``refuse`` raises."""
    return kind(_placed(cfg, key, reason))


def add_place(error: UserError, cfg: Config, key: str) -> None:
    """Put file and key before the message of an error that a part of the config has raised."""
    if not str(error).startswith(f"{cfg.filename}: "):
        text = text_of(error)
        remedy = "" if "; " in text else "; correct it."
        error.args = (_placed(cfg, key, text.removesuffix(".") + remedy if remedy else text),)
        error.is_placed = True


def _placed(cfg: Config, key: str, reason: str) -> str:
    return ": ".join(filter(None, (str(cfg.filename or "config"), key, reason)))


def one_line(error: BaseException) -> str:
    """Return what an error says in one line, after its class if that adds something."""
    # str(KeyError) would be its argument in quotes.
    text = error.args[0] if isinstance(error, KeyError) and error.args else text_of(error)
    text = shorten(str(text), _MAX_LENGTH, placeholder=" ...").rstrip(".")
    if isinstance(error, AssertionError) and not text:
        text = f"it must hold that {_failed_line(error).removeprefix('assert ')}"
    plain = type(error) in (ValueError, TypeError, RuntimeError, AssertionError) and text
    return text if plain else f"{type(error).__name__}: {text}".removesuffix(": ")


def _failed_line(error: BaseException) -> str:
    return traceback.extract_tb(error.__traceback__)[-1].line or ""


def place_of(error: BaseException) -> str:
    """Return file and line where an error was raised, as Python writes them."""
    frame, line = list(traceback.walk_tb(error.__traceback__))[-1]
    return f"{frame.f_code.co_filename}:{line}"


def _explain(error: Exception, path: Path) -> UserValueError | UserFileNotFoundError:
    frames = list(traceback.walk_tb(error.__traceback__))
    functions = {frame.f_code.co_name for frame, _ in frames}
    read = [
        Path(frame.f_locals["filename"])
        for frame, _ in frames
        if frame.f_code.co_name in _READERS and "filename" in frame.f_locals
    ]
    files = [file.absolute() for file in read or [path]]
    last = _shown(files[-1], path)
    missing = next((file for file in files if not file.exists()), None)
    lines = [line for frame, line in frames if Path(frame.f_code.co_filename) in files]
    if isinstance(error, SyntaxError) and error.filename in (None, "<unknown>", *map(str, files)):
        return UserValueError(f"{last}: line {error.lineno}: {error.msg}; correct the syntax.")
    if found := _LAZY.match(str(error)):
        what, file, line, why = found.groups()
        reason = f"{what[0].lower()}{what[1:]}{f' ({why})' if why else ''}"
        return UserValueError(
            f"{_shown(Path(file), path)}: line {line}: {reason}; correct it, or add the folder of "
            "the module to PYTHONPATH."
        )
    if isinstance(error, FileNotFoundError) and missing:
        parent = _shown(next(file for file in reversed(files) if file.exists()), path)
        return UserFileNotFoundError(
            f"{parent}: _base_: it must name config files, but there is no {missing}; correct it."
        )
    if lines:
        return UserValueError(f"{last}: line {lines[-1]}: {one_line(error)}; correct it.")
    if "custom modules" in str(error) or "import_modules_from_strings" in {*functions}:
        cause: Any = error.__cause__ or error
        return UserValueError(
            f"{path}: custom_imports: {one_line(cause)} ({place_of(cause)}); correct it, or add "
            "the folder of the module to PYTHONPATH."
        )
    if isinstance(error, RecursionError):
        return UserValueError(f"{path}: _base_: it leads back to the file itself; correct it.")
    if "inheritance chain" in str(error):
        return UserValueError(
            f"{last}: a config that imports packages inherits by `with read_base():` and not by "
            "_base_; list modules in custom_imports instead of importing them."
        )
    is_base = last.suffix == ".py" and {"_get_base_files", "_get_cfg_path"} & functions
    key = "_base_: " if is_base else ""
    return UserValueError(f"{last}: {key}{one_line(error)}; correct it.")


def _shown(file: Path, path: Path) -> Path:
    """Return a file as the user wrote it, if it is the one that was named."""
    return path if file == path.absolute() else file
