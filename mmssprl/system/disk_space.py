"""Room on a disk and in shared memory: how much there is, and how much a run takes."""

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError, UserOSError

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

FULL = (errno.ENOSPC, errno.EDQUOT)
"""What the operating system answers where nothing more fits: the disk or the quota is used up."""
SHARED_MEMORY = Path("/dev/shm")
"""Through which the workers of a data loader hand over their batches."""
_LEAST_SHARED = 1_000_000
"""Bytes. Less holds no batch of images, and hardly the queues of some workers."""


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
        size = "" if needed is None else f" ({format_bytes(needed)})"
        raise UserOSError(
            f"the {limit} must have room for {path}{size}, but {format_bytes(free_bytes(path))} of "
            "the disk are free; what was written before is still there: make room, and go on by "
            "--resume."
        ) from error


def check_room(loader: "DataLoader", image_bytes: int = 0) -> None:
    """Refuse a loader whose workers have too little shared memory for what they load ahead.

    Args:
        loader: Data loader of one of the processes of this machine.
        image_bytes: What an image takes in a batch; 0 if nobody knows.

    Raises:
        OSError: There is too little.
    """
    if not loader.num_workers or not SHARED_MEMORY.is_dir():
        return
    images = loader.num_workers * (loader.prefetch_factor or 0) * (loader.batch_size or 1)
    needed = image_bytes * images * int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    needed = max(needed, _LEAST_SHARED)
    usage = shutil.disk_usage(SHARED_MEMORY)
    if usage.free < needed:
        raise UserOSError(
            "shared memory must have room for what a data loader's workers hand over, "
            f"{needed / 1e6:,.1f} MB, but {SHARED_MEMORY} has {usage.free / 1e6:,.1f} of "
            f"{usage.total / 1e6:,.1f} MB free; give a container more (docker run --shm-size=8g), "
            "or load without workers (num_workers=0 of the data loader, --workers 0 of pretrain, "
            "--num-workers 0 of other commands)."
        )


def format_bytes(num_bytes: float) -> str:
    """Return a size in MB, or from 10 GB on in GB."""
    return f"{num_bytes / 1e9:,.0f} GB" if num_bytes >= 1e10 else f"{num_bytes / 1e6:,.0f} MB"
