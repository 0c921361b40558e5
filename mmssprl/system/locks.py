"""Locks: one process at a time writes to a folder or file, and others are refused or wait."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import UserRuntimeError
from .outputs import check_folder, prepare_output

LOCK_FILE = ".lock"
"""Lock file in a folder; a file OUT has ``.OUT.lock`` next to it."""


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
    """Lock a file while the block runs, after all other processes that write it."""
    with FileLock(_lock_of(Path(path))):
        yield


def is_unused(folder: Path) -> bool:
    """Whether a folder does not exist, or is empty except for locks."""
    if folder.is_dir():
        names = [path.name for path in folder.iterdir()]
        return all(name.startswith(".") and name.endswith(LOCK_FILE) for name in names)
    return not folder.exists()


def _lock_of(path: Path) -> Path:
    return path.with_name(f".{path.name}{LOCK_FILE}")


@contextmanager
def _held(file: Path, what: Path) -> Iterator[None]:
    lock = FileLock(file)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise UserRuntimeError(
            f"one process at a time must write {what}, but another one does; wait for it, stop it, "
            "or give another path."
        ) from error
    try:
        yield
    finally:
        with suppress(OSError):
            if not file.stat().st_size:  # else it is a user's file
                file.unlink()
        lock.release()
