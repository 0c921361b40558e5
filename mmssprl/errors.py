"""Errors that a user can mend, told apart from bugs by their class.

Each is also the built-in class that a caller would expect, so that ``except ValueError`` works as
ever. Only what this package raises on purpose is of these classes: a ValueError out of numpy, or
the TypeError of a wrong call, is a bug and keeps its traceback.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class UserError(Exception):
    """A mistake in a command, a config, a file or an installation; its message has the remedy.

    Attributes:
        is_placed: Whether the message begins with a file and a key, and is to be shown whole.
    """

    is_placed = False


class UserValueError(UserError, ValueError):
    """A value that does not fit."""


class UserTypeError(UserError, TypeError):
    """A value of a class that does not fit."""


class UserRuntimeError(UserError, RuntimeError):
    """Something about the run or the environment that the user can change."""


class UserOSError(UserError, OSError):
    """Something about files, disks or downloads."""


class UserFileNotFoundError(UserError, FileNotFoundError):
    """A file or folder that is not there."""


class UserFileExistsError(UserError, FileExistsError):
    """A file or folder that is in the way."""


class UserPermissionError(UserError, PermissionError):
    """A file or folder that may not be read or written."""


@contextmanager
def called(argument: str, *, field: str = "data_root/data_prefix") -> Iterator[None]:
    """Let errors about a field of a config name the argument that a user has given instead.

    Also a decorator. What is raised is of the same class, without the colon behind the field.
    """
    try:
        yield
    except UserError as error:
        text = str(error)
        if field not in text or type(error).__module__ != __name__:
            raise
        named = text.replace(f"{field}:", argument).replace(field, argument)
        raise type(error)(named) from error


@contextmanager
def refuse_damaged(path: str | Path, what: str, remedy: str) -> Iterator[None]:
    """Raise UserValueError, one line, for whatever reading a damaged or another file raises."""
    try:
        yield
    except (OSError, UserError):
        raise
    except Exception as error:
        raise UserValueError(
            f"{path} must be {what}, but cannot be read as that ({type(error).__name__}); {remedy}."
        ) from error


_WORKER = "Caught "
"""How torch begins an error that it raises again for a loader's worker process."""


def text_of(error: BaseException) -> str:
    """Return what an error says, without the traceback of the worker that it comes from."""
    text = str(error)
    # A worker's last line is "module.Class: message".
    return text.rstrip().splitlines()[-1].partition(": ")[2] if text.startswith(_WORKER) else text
