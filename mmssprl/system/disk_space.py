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
    """Return how many checkpoints of a run are on the disk at most, one of a step among them.

    ``length`` is in epochs or iterations, as ``interval`` of the hook's config.
    """
    # The last one is saved in any case.
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
            f"{format_bytes(needed)}, but {format_bytes(free)} are free; make room, give a "
            "--work-dir on another disk, or keep fewer checkpoints, "
            "default_hooks.checkpoint.max_keep_ckpts=1."
        )


@contextmanager
def explain_full_disk(path: Path, needed: int | None = None) -> Iterator[None]:
    """Let the OSError of a full disk say in one line what is free and how to go on.

    ``path`` is the folder of a run, or a file of ``needed`` bytes.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL or isinstance(error, UserError):
            raise
        limit = "quota" if error.errno == errno.EDQUOT else "disk"
        size = "" if needed is None else f" ({format_bytes(needed)})"
        raise UserOSError(
            f"the {limit} must have room for {path}{size}, but {format_bytes(free_bytes(path))} of "
            "the disk are free; what was written before is still there: make room, and go on by "
            "--resume."
        ) from error


def format_bytes(num_bytes: float) -> str:
    """Return a size in MB, or from 10 GB on in GB."""
    return f"{num_bytes / 1e9:,.0f} GB" if num_bytes >= 1e10 else f"{num_bytes / 1e6:,.0f} MB"
