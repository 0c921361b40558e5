"""Errors that a user can fix.

Each also derives from the built-in class, so that ``except ValueError`` works. Only this package
raises them: a ValueError of numpy, or the TypeError of a wrong call, is a bug and keeps its
traceback.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class UserError(Exception):
    """A mistake in a command, a config, a file or an installation; the message has the remedy.

    Attributes:
        is_placed: Whether the message begins with a file and a key.
    """

    is_placed = False


class UserValueError(UserError, ValueError):
    """An invalid value."""


class UserTypeError(UserError, TypeError):
    """A value of a wrong type."""


class UserRuntimeError(UserError, RuntimeError):
    """A problem of the run or the environment."""


class UserOSError(UserError, OSError):
    """A problem with files, disks or downloads."""


class UserFileNotFoundError(UserError, FileNotFoundError):
    """A missing file or folder."""


class UserFileExistsError(UserError, FileExistsError):
    """A file or folder that already exists."""


class UserPermissionError(UserError, PermissionError):
    """A file or folder without permission to read or write."""


@contextmanager
def called(argument: str, *, field: str = "data_root/data_prefix") -> Iterator[None]:
    """Replace a config field by the user's argument in the messages of user errors.

    The class stays, the colon after the field goes. Also works as a decorator.
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
    """Raise UserValueError for any error of a reader, except OSError and user errors."""
    try:
        yield
    except (OSError, UserError):
        raise
    except Exception as error:
        raise UserValueError(
            f"{path} must be {what}, but cannot be read as that ({type(error).__name__}); {remedy}."
        ) from error


_WORKER = "Caught "
"""Start of an error that torch raises for a loader's worker process."""


def text_of(error: BaseException) -> str:
    """Return the message of an error, without the traceback of a worker."""
    text = str(error)
    if not text.startswith(_WORKER):
        return text
    # A worker's last line is "module.Class: message".
    return text.rstrip().splitlines()[-1].partition(": ")[2]
