"""One process at a time writes a folder or a file."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import UserRuntimeError
from .outputs import check_folder, prepare_output

FILE = ".lock"
"""In a folder that is held; of a file OUT it is ``.OUT.lock`` next to it."""


@contextmanager
def hold_work_dir(folder: str | Path, *, writes: bool = True) -> Iterator[None]:
    """Make a folder, and let no other process write into it while the block runs, if it writes.

    The lock ends with the process, however that ends. Loader processes do not inherit it. After a
    kill the lock's file stays, and means nothing.
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
def _held(file: Path, what: Path) -> Iterator[None]:
    lock = FileLock(file)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise UserRuntimeError(
            f"one process at a time must write {what}, but another one does; wait for its end or "
            "end it, or give another path."
        ) from error
    try:
        yield
    finally:
        with suppress(OSError):
            if not file.stat().st_size:  # else it is a user's own
                file.unlink()
        lock.release()
