"""Output files and folders, atomic writes, and disk space."""

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import psutil

from ..console.paths import check_path
from ..errors import UserFileExistsError, UserOSError, UserPermissionError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of the operating system for a full disk or quota."""
_PART = re.compile(r".+\.(\d+)\.part")


def prepare_output(path: str | Path, *suffixes: str, overwrite: bool = False) -> Path:
    """Create the folder of ``path``; refuse an existing file or another suffix.

    Call it before any work is done.
    """
    path = check_path(path, "the output", file="a file", suffixes=suffixes, writes=True)
    if path.exists() and not overwrite:
        raise UserFileExistsError(
            f"the output must not exist yet, but {path} does; replace it with overwrite "
            "(--overwrite), or choose another name."
        )
    check_folder(path.parent, "the folder of the output").mkdir(parents=True, exist_ok=True)
    return path


def check_folder(path: str | Path, name: str = "work_dir") -> Path:
    """Refuse a folder that cannot be created or written to; create nothing."""
    path = check_path(path, name, folder="a folder", writes=True)
    existing = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not existing.is_dir():
        raise UserFileExistsError(
            f"{name} must be a folder, but {existing} is a file; give another."
        )
    if not os.access(existing, os.W_OK):
        raise UserPermissionError(
            f"{path} must be a folder that you may write to, but {existing} is not; choose another "
            "path, or change its permissions."
        )
    return path


@contextlib.contextmanager
def whole_file(path: str | Path, mode: str = "w", *, synced: bool = True) -> Iterator[IO[Any]]:
    """Write a file next to ``path`` and rename it when the block ends without an error.

    ``sweep_parts`` deletes the rest of a killed process. Without ``synced``, a power failure may
    leave the file empty; use it for many small files that can be made again.
    """
    path = Path(path)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    # Names that are not UTF-8 are written as on the disk.
    encoding = None if "b" in mode else "utf-8"
    errors = encoding and "surrogateescape"

    try:
        with part.open(mode, encoding=encoding, errors=errors) as file:
            yield file
            if synced:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
        if synced:
            _sync_folder(path.parent)
    except (OSError, RuntimeError) as error:
        # torch.save turns an OSError of the file into a RuntimeError.
        cause = error if isinstance(error, OSError) else error.__context__
        if not isinstance(cause, OSError):
            raise
        # Without errno, setting a filename would replace the message.
        if cause.errno is not None and cause.filename in (None, str(part)):
            cause.filename = str(path)
        raise cause from None
    finally:
        part.unlink(missing_ok=True)


def sweep_parts(folder: Path) -> list[Path]:
    """Delete the unfinished files of dead processes, and return them."""
    found = [(part, _PART.fullmatch(part.name)) for part in sorted(folder.glob("*.part"))]
    swept = [part for part, name in found if name and not psutil.pid_exists(int(name[1]))]
    for part in swept:
        part.unlink(missing_ok=True)
    return swept


def _sync_folder(folder: Path) -> None:
    """Sync the names of a folder's files to the disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno != errno.EINVAL:  # the file system cannot sync folders
            raise
    finally:
        os.close(opened)


def write_whole(path: str | Path, text: str) -> None:
    """Write text atomically."""
    with whole_file(path) as file:
        file.write(text)


def write_figure(path: str | Path, figure: "Figure") -> None:
    """Write a figure atomically, in the format of the path's suffix."""
    from matplotlib import style  # not at the top: slow

    with whole_file(path, "wb") as file, style.context("default"):  # not a user's resolution
        figure.savefig(file, format=Path(path).suffix.removeprefix(".") or None)


def free_bytes(folder: Path) -> int:
    """Return the free bytes on the disk of a folder, even if the folder does not exist yet."""
    folder = folder.absolute()
    return shutil.disk_usage(next(f for f in (folder, *folder.parents) if f.exists())).free


def num_checkpoints(length: int, checkpoint: Mapping[str, Any]) -> int:
    """Return the most checkpoints that a run has on the disk at once, a step's included."""
    interval = checkpoint.get("interval", 1)
    num_saved = -(-length // interval) if interval > 0 else 1
    most = checkpoint.get("max_keep_ckpts", -1)
    # The oldest is deleted after the newest is written.
    return 1 + (min(most + 1, num_saved) if most > 0 else num_saved)


def require_space(folder: Path, needed: int) -> None:
    """Raise OSError if the ``needed`` bytes of checkpoints do not fit on the disk."""
    free = free_bytes(folder)
    if needed > free:
        raise UserOSError(
            f"the disk of {folder} must have room for the checkpoints of the run, "
            f"{format_bytes(needed)}, but {format_bytes(free)} are free; make room, give another "
            "work_dir, or keep fewer checkpoints, default_hooks.checkpoint.max_keep_ckpts=1."
        )


def format_bytes(num_bytes: float) -> str:
    """Return a size in MB, or from 10 GB on in GB."""
    return f"{num_bytes / 1e9:,.0f} GB" if num_bytes >= 1e10 else f"{num_bytes / 1e6:,.0f} MB"
