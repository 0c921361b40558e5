"""Errors as one line for the user."""

import errno
import os
import traceback

from ..errors import UserError, text_of
from .wording import printable


def message_for_user(error: BaseException) -> str | None:
    """Return the message for the user, or None if the error is a bug.

    A user's mistake is a ``UserError``, even inside the error of a registry or a loader's worker,
    or an error of the operating system.
    """
    if is_of_shared_memory(error):
        return _NO_SHARED_MEMORY
    if not isinstance(error, UserError | OSError):
        return None

    text = text_of(error)
    inner = error.__cause__ or error.__context__
    is_placed = isinstance(error, UserError) and error.is_placed
    if isinstance(inner, UserError) and str(inner) in text and not is_placed:
        return message_for_user(inner)
    if isinstance(error, UserError):
        return printable(text)

    remedy = _REMEDIES.get(error.errno or 0)
    if remedy and error.filename is not None:
        remedy = f"{os.fsdecode(error.filename)}: {remedy}"
    elif error.errno == errno.ENOENT and error.strerror != os.strerror(errno.ENOENT):
        remedy = error.strerror  # such as of tempfile, if all its disks are full
    return printable(remedy or str(error))


def is_of_shared_memory(error: BaseException) -> bool:
    """Whether an error says that /dev/shm is full: of torch, or of a lock between processes."""
    if isinstance(error, UserError):
        return False
    if isinstance(error, OSError):
        frames = traceback.walk_tb(error.__traceback__)
        modules = [frame.f_globals.get("__name__") for frame, _ in frames]
        return error.errno == errno.ENOSPC and _LOCKS in modules
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _OF_TORCH)


_LOCKS = "multiprocessing.synchronize"
"""Module of the locks that are files in /dev/shm."""
_OF_TORCH = ("shared memory(shm)", "</torch_", "raise your shared memory limit")
"""Parts of torch's errors: no file for a tensor, no room for its values, a bus error."""
_NO_SHARED_MEMORY = (
    "shared memory (/dev/shm) is full; in a container, make room by docker run --shm-size=2g, or "
    "set num_workers=0 to read images without processes."
)
_REMEDIES: dict[int, str] = {
    errno.ENOSPC: "the disk is full; free some space, or choose a folder on another disk.",
    errno.EDQUOT: "your quota on this disk is used up; free some space, or choose another disk.",
    errno.EROFS: "the disk is read-only; choose a folder on another disk.",
    errno.EACCES: "permission denied; choose another path, or change its permissions.",
    errno.ENOENT: "there is no such file or folder; correct the path.",
    errno.EMFILE: "too many files are open; raise the limit with `ulimit -n 65536`.",
}
