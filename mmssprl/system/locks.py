"""Locks: one process at a time writes to a folder or file, and others are refused or wait.

Some network drives have no locks. There a marker file would outlive a killed process, and refuse
the job that resumes it on another machine. So nobody is refused there, and one line says so.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from ..console.quiet import say
from ..errors import UserRuntimeError
from .outputs import check_folder, prepare_output

LOCK_FILE = ".lock"
"""Lock file in a folder; a file OUT has ``.OUT.lock`` next to it."""
_WITHOUT_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}
"""Errors of ``flock``, on Lustre and on NFS."""


@contextmanager
def hold_work_dir(folder: str | Path, *, writes: bool = True) -> Iterator[None]:
    """Create a folder and lock it while the block runs, unless ``writes`` is False.

    The lock ends with the process, even if it is killed; the lock file then stays without effect.
    """
    if not writes:
        yield
        return
    folder = check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _held(folder / LOCK_FILE, folder):
        yield


@contextmanager
def hold_output(path: str | Path, *suffixes: str, overwrite: bool = False) -> Iterator[None]:
    """Call ``prepare_output``, and lock the file while the block runs."""
    path = prepare_output(path, *suffixes, overwrite=overwrite)
    with _held(_lock_of(path), path):
        prepare_output(path, overwrite=overwrite)  # another process may just have written it
        yield


@contextmanager
def wait_for(path: str | Path) -> Iterator[None]:
    """Lock a file while the block runs, after all other processes that write it.

    On a drive without locks they wait for a marker file.
    """
    path = Path(path)
    lock: BaseFileLock | None = _lock(_lock_of(path), blocking=True)
    if lock is None:
        marker = path.with_name(f".{path.name}.marker{LOCK_FILE}")
        _say_once(
            f"warning: the drive of {path.parent} has no locks; processes wait for "
            f"{marker.name} in it. If one was killed on another machine, delete that file."
        )
        lock = SoftFileLock(marker)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def is_unused(folder: Path) -> bool:
    """Whether a folder does not exist, or is empty except for hidden files, such as locks.

    ``lost+found`` is in the top folder of a disk.
    """
    if folder.is_dir():
        names = [path.name for path in folder.iterdir()]
        return all(name.startswith(".") or name == "lost+found" for name in names)
    return not folder.exists()


def _lock_of(path: Path) -> Path:
    return path.with_name(f".{path.name}{LOCK_FILE}")


@contextmanager
def _held(file: Path, what: Path) -> Iterator[None]:
    try:
        lock = _lock(file, blocking=False)
    except Timeout as error:
        raise UserRuntimeError(
            f"one process at a time must write {what}, but another one does; wait for it, stop it, "
            "or give another path."
        ) from error
    if lock is None:
        _say_once(
            f"warning: the drive of {what} has no locks, so a second command that writes there "
            "would not be refused; start only one."
        )
    try:
        yield
    finally:
        with suppress(OSError):
            if not file.stat().st_size:  # else it is a user's file
                file.unlink()
        if lock is not None:
            lock.release()


def _lock(file: Path, *, blocking: bool) -> FileLock | None:
    """Lock a file; return None on a drive without locks."""
    lock = FileLock(file, fallback_to_soft=False)
    try:
        lock.acquire(blocking=blocking)
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            raise
        return None
    return lock


@cache
def _say_once(line: str) -> None:
    say(line)
