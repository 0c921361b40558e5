"""Errors that a user can mend, told apart from bugs by their class.

Each is also the built-in class that a caller would expect, so that ``except ValueError`` works as
ever. Only what this package raises on purpose is of these classes: a ValueError out of numpy, or
the TypeError of a wrong call, is a bug and keeps its traceback.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from .console.wording import printable


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
    """Let errors about a field of a config name the argument that a user has given instead."""
    try:
        yield
    except UserError as error:
        text = str(error)
        if field not in text or type(error).__module__ != __name__:
            raise
        named = text.replace(f"{field}:", argument).replace(field, argument)
        raise type(error)(named) from error


def text_of(error: BaseException) -> str:
    """Return what an error says, without the traceback of the worker that it comes from."""
    text = str(error)
    # Torch begins so what a worker has raised; its last line is "module.Class: message".
    return text.rstrip().splitlines()[-1].partition(": ")[2] if text.startswith("Caught ") else text


def message_for_user(error: BaseException) -> str | None:
    """Return the message that tells a user what to mend, or None if the error is a bug.

    A user's mistake is a ``UserError``, even if a registry or a loader's worker wrapped it in text
    of its own, or an error of the operating system, which is told with its path.
    """
    if isinstance(error, OSError) and not isinstance(error, UserError):
        name = error.filename and f"{os.fsdecode(error.filename)}: "
        return printable(f"{name or ''}{error.strerror or error}.")
    if not isinstance(error, UserError):
        return None
    text = text_of(error)
    inner = error.__cause__ or error.__context__
    if isinstance(inner, UserError) and str(inner) in text and not error.is_placed:
        return message_for_user(inner)
    return printable(text)
