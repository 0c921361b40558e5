"""Files that commands and trainings write, and room for them on the disk."""

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
"""What the operating system answers where nothing more fits: the disk or the quota is used up."""
_PART = re.compile(r".+\.(\d+)\.part")


def prepare_output(path: str | Path, *suffixes: str, overwrite: bool = False) -> Path:
    """Make the folder of ``path`` and refuse to replace a file, before any work is done.

    It must end in one of ``suffixes``, if there are some.
    """
    path = check_path(path, "the output", file="a file", suffixes=suffixes, writes=True)
    if path.exists() and not overwrite:
        raise UserFileExistsError(
            f"the output must not exist yet, but {path} does; overwrite (--overwrite) replaces it, "
            "or choose another name."
        )
    check_folder(path.parent, "the folder of the output").mkdir(parents=True, exist_ok=True)
    return path


def check_folder(path: str | Path, name: str = "work_dir") -> Path:
    """Refuse a folder that cannot be made or written to, before any work is done; make nothing."""
    path = check_path(path, name, folder="a folder", writes=True)
    there = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not there.is_dir():
        raise UserFileExistsError(f"{name} must be a folder, but {there} is a file; give another.")
    if not os.access(there, os.W_OK):
        raise UserPermissionError(
            f"{path} must be a folder that you may write to, but {there} is not; choose another "
            "path, or change its permissions."
        )
    return path


@contextlib.contextmanager
def whole_file(path: str | Path, mode: str = "w", *, synced: bool = True) -> Iterator[IO[Any]]:
    """Open a file that is there completely or not at all, whatever stops process or machine.

    It is written next to ``path`` under another name, and takes its place when the block ends
    without an error; a file that was there before stays until then. What a killed process leaves,
    ``sweep_parts`` deletes. Without ``synced``, for thousands of small files that a command makes
    again, a loss of power may leave them empty.
    """
    path = Path(path)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    # A file's name that is no UTF-8 is written as it is on the disk.
    encoding, errors = (None, None) if "b" in mode else ("utf-8", "surrogateescape")
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
        # torch.save makes a RuntimeError of the OSError of a file that it writes to.
        cause = error if isinstance(error, OSError) else error.__context__
        if not isinstance(cause, OSError):
            raise
        # Without a number its text is all it has, and a file name would take its place.
        if cause.errno is not None and cause.filename in (None, str(part)):
            cause.filename = str(path)
        raise cause from None
    finally:
        part.unlink(missing_ok=True)


def sweep_parts(folder: Path) -> list[Path]:
    """Delete the unfinished files of ``whole_file`` whose process is gone, and return them."""
    swept = []
    for part in sorted(folder.glob("*.part")):
        name = _PART.fullmatch(part.name)
        if name is not None and not psutil.pid_exists(int(name[1])):
            part.unlink(missing_ok=True)
            swept.append(part)
    return swept


def _sync_folder(folder: Path) -> None:
    """Wait until the disk has the names of a folder's files."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system whose folders cannot be synced
            raise
    finally:
        os.close(opened)


def write_whole(path: str | Path, text: str) -> None:
    """Write text through ``whole_file``."""
    with whole_file(path) as file:
        file.write(text)


def write_figure(path: str | Path, figure: "Figure") -> None:
    """Write a figure through ``whole_file``, in the format that the path's suffix names."""
    with whole_file(path, "wb") as file:
        figure.savefig(file, format=Path(path).suffix.removeprefix(".") or None)


def free_bytes(folder: Path) -> int:
    """Return the free space where a folder is or will be."""
    folder = folder.absolute()
    return shutil.disk_usage(next(f for f in (folder, *folder.parents) if f.exists())).free


def num_checkpoints(length: int, checkpoint: Mapping[str, Any]) -> int:
    """Return how many checkpoints of a run are on the disk at most, one of a step among them.

    ``length`` is in epochs or iterations, as ``interval`` of the hook's config. The last one is
    saved in any case.
    """
    interval = checkpoint.get("interval", 1)
    num_saved = -(-length // interval) if interval > 0 else 1
    most = checkpoint.get("max_keep_ckpts", -1)
    # The oldest one is deleted when the newest is whole.
    return 1 + (min(most + 1, num_saved) if most > 0 else num_saved)


def require_space(folder: Path, needed: int) -> None:
    """Refuse by an OSError a run whose checkpoints, ``needed`` bytes, do not fit the disk."""
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
