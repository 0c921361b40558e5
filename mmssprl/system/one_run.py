"""One process at a time writes a folder or a file."""

import errno
import fcntl
import logging
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO

from mmengine.logging import print_log

from ..errors import UserFileExistsError, UserRuntimeError
from .outputs import check_folder, prepare_output

FILE = ".lock"
"""In a folder that is held; of a file OUT it is ``.OUT.lock`` beside it."""
_HELD = (errno.EACCES, errno.EAGAIN)
_BEGIN = b"process "
"""How the text of a lock begins, which says pid, machine and time."""
_MOST_READ = 500


@contextmanager
def hold_work_dir(folder: str | Path, *, writes: bool = True) -> Iterator[None]:
    """Make a folder, and let no other process write into it while the block runs, if it writes.

    The operating system holds the lock: it ends with the process, however that ends, and over NFS
    with its machine. Loader processes do not inherit it. After a kill the lock's file stays, and
    means nothing.
    """
    if not writes:
        yield
        return
    folder = check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _held(folder / FILE, folder):
        yield


@contextmanager
def hold_output(path: str | Path, *suffixes: str, overwrite: bool = False) -> Iterator[None]:
    """Do ``prepare_output``, and let no other process write the file while the block runs."""
    path = prepare_output(path, *suffixes, overwrite=overwrite)
    with _held(path.with_name(f".{path.name}{FILE}"), path):
        prepare_output(path, overwrite=overwrite)  # another process may just have written it
        yield


def is_unused(folder: Path) -> bool:
    """Whether a folder is not there, or empty but for its lock."""
    if folder.is_dir():
        return all(path.name == FILE for path in folder.iterdir())
    return not folder.exists()


@contextmanager
def _held(lock: Path, what: Path) -> Iterator[None]:
    file = _take(lock, what)
    while not os.fstat(file.fileno()).st_nlink:  # its last holder has ended meanwhile
        file.close()
        file = _take(lock, what)
    try:
        now = datetime.now().astimezone().isoformat(" ", "seconds")
        file.truncate(0)
        file.write(_BEGIN + f"{os.getpid()} on {socket.gethostname()}, since {now}".encode())
        yield
    finally:
        # Before it is let go of: whoever has opened it by then sees that it has no name any more.
        with suppress(OSError):
            lock.unlink()
        file.close()


def _take(lock: Path, what: Path) -> IO[bytes]:
    file = _open(lock)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            holder = file.read(_MOST_READ).decode(errors="replace") or "another one"
            file.close()
            raise UserRuntimeError(
                f"one process at a time must write {what}, but {holder} does; wait for its end or "
                "end it, or give another path."
            ) from error
        print_log(
            f"the file system of {what} has no locks ({error.strerror}): start no second command "
            "that writes there.",
            logger="current",
            level=logging.WARNING,
        )
    return file


def _open(lock: Path) -> IO[bytes]:
    """Open the file of a lock, which is made if need be, and never anything else."""
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    else:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            content = os.pread(descriptor, _MOST_READ, 0)
            if not content or content.startswith(_BEGIN):
                return os.fdopen(descriptor, "r+b", buffering=0)
        os.close(descriptor)
    raise UserFileExistsError(
        f"{lock} must be a lock of mmssprl, but is a link or another file; remove or rename it."
    )
