"""Errors that a user can mend, told apart from bugs by their class.

Each is also the built-in class that a caller would expect, so that ``except ValueError`` works as
ever. Only what this package raises on purpose is of these classes: a ValueError out of numpy, or
the TypeError of a wrong call, is a bug and keeps its traceback.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


def message_for_user(error: BaseException) -> str | None:
    """Return the message that tells a user what to mend, or None if the error is a bug.

    A user's mistake is a ``UserError``, even if a registry or a loader's worker wrapped it in text
    of its own, or an error of the operating system, which is told with its path and what to do.
    """
    if not isinstance(error, UserError | OSError):
        return None
    text = text_of(error)
    inner = error.__cause__ or error.__context__
    is_placed = isinstance(error, UserError) and error.is_placed
    if isinstance(inner, UserError) and str(inner) in text and not is_placed:
        return message_for_user(inner)
    return printable(text if isinstance(error, UserError) else _describe(error))


_REMEDIES: dict[int, str] = {
    errno.ENOSPC: "the disk is full; free some space, or choose a folder on another disk.",
    errno.EDQUOT: "your quota on this disk is used up; free some space, or choose another disk.",
    errno.EROFS: "the disk is read-only; choose a folder on another disk.",
    errno.EACCES: "permission denied; choose another path, or change its permissions.",
    errno.ENOENT: "there is no such file or folder; correct the path.",
    errno.EMFILE: "too many files are open; raise the limit with `ulimit -n 65536`.",
}


def _describe(error: BaseException) -> str:
    """Return path, what is wrong and a remedy for an error of the operating system."""
    remedy = _REMEDIES.get(getattr(error, "errno", None) or 0)
    filename = getattr(error, "filename", None)
    if remedy is None or filename is None:
        return remedy or str(error)
    return f"{os.fsdecode(filename)}: {remedy}"
