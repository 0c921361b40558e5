"""Room on a disk: how much is free, and how much the checkpoints of a run take."""

import errno
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import UserError, UserOSError

FULL = (errno.ENOSPC, errno.EDQUOT)
"""What the operating system answers where nothing more fits: the disk or the quota is used up."""


def free_bytes(folder: Path) -> int:
    """Return the free space where a folder is or will be."""
    folder = folder.absolute()
    return shutil.disk_usage(next(f for f in (folder, *folder.parents) if f.exists())).free


def num_checkpoints(length: int, checkpoint: Mapping[str, Any]) -> int:
    """Return how many checkpoints of a run are on the disk at most, for a moment.

    Args:
        length: Epochs or iterations, whatever the interval counts.
        checkpoint: ``interval`` and ``max_keep_ckpts`` of the hook.

    Returns:
        Those of the hook, and one of a step between them, see ``SaveAndStopHook``.
    """
    # The last one is saved in any case.
    interval = checkpoint.get("interval", 1)
    num_saved = -(-length // interval) if interval > 0 else 1
    most = checkpoint.get("max_keep_ckpts", -1)
    # The oldest one is deleted when the newest is whole.
    return 1 + (min(most + 1, num_saved) if most > 0 else num_saved)


def require_space(folder: Path, needed: int) -> None:
    """Refuse a run whose checkpoints do not fit the disk.

    Args:
        folder: Where they go; it need not exist yet.
        needed: Their bytes.

    Raises:
        OSError: Names the folder, what is needed and what is free.
    """
    free = free_bytes(folder)
    if needed > free:
        raise UserOSError(
            f"the disk of {folder} must have room for the checkpoints of the run, "
            f"{format_bytes(needed)}, but {format_bytes(free)} are free; make room, give a "
            "--work-dir on another disk, or keep fewer checkpoints, "
            "default_hooks.checkpoint.max_keep_ckpts=1."
        )


@contextmanager
def explain_full_disk(path: Path, needed: int | None = None) -> Iterator[None]:
    """Say of what does not fit any more, such as a run's log, what is free and how to go on.

    Args:
        path: The folder of a run, or a file.
        needed: The file's bytes.

    Raises:
        OSError: In one line, unless the error is one already.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL or isinstance(error, UserError):
            raise
        limit = "quota" if error.errno == errno.EDQUOT else "disk"
        lack = f"the {limit} of {path} must have room for the files of the run, but"
        if needed is not None:
            lack = f"{path} must fit its {limit}: it needs {format_bytes(needed)}, and"
        raise UserOSError(
            f"{lack} {format_bytes(free_bytes(path))} of the disk are free; what was written "
            "before is still there: make room, and go on by --resume."
        ) from error


def format_bytes(num_bytes: float) -> str:
    """Return a size in MB, or from 10 GB on in GB."""
    return f"{num_bytes / 1e9:,.0f} GB" if num_bytes >= 1e10 else f"{num_bytes / 1e6:,.0f} MB"
