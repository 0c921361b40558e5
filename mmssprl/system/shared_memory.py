"""The shared memory through which the workers of a data loader hand over their batches."""

import os
import shutil
from pathlib import Path
from typing import NoReturn

from torch.utils.data import DataLoader

from ..errors import UserOSError

FOLDER = Path("/dev/shm")
_LEAST = 1_000_000
"""Bytes. Less holds no batch of images, and hardly the queues of some workers."""


def check_room(loader: DataLoader, image_bytes: int = 0) -> None:
    """Refuse workers that have too little room for the batches that they load ahead.

    Args:
        loader: Of one of the processes of this machine.
        image_bytes: What an image takes in a batch; 0 if nobody knows.

    Raises:
        OSError: There is too little.
    """
    if not loader.num_workers or not FOLDER.is_dir():
        return
    images = loader.num_workers * (loader.prefetch_factor or 0) * (loader.batch_size or 1)
    needed = image_bytes * images * int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if shutil.disk_usage(FOLDER).free < max(needed, _LEAST):
        _refuse(f", {needed / 1e6:,.1f} MB" if needed > _LEAST else "")


def explain_lack(error: Exception) -> None:
    """Tell of an error that torch raises where there is no room, also after a bus error.

    Raises:
        OSError: It is one.
    """
    if isinstance(error, RuntimeError) and "shared memory" in str(error) and FOLDER.is_dir():
        _refuse("")


def _refuse(needed: str) -> NoReturn:
    usage = shutil.disk_usage(FOLDER)
    raise UserOSError(
        f"shared memory must have room for what a data loader's workers hand over{needed}, but "
        f"{FOLDER} has {usage.free / 1e6:,.1f} of {usage.total / 1e6:,.1f} MB free; give a "
        "container more (docker run --shm-size=8g), or load without workers (num_workers=0 of the "
        "data loader, --workers 0 of pretrain, --num-workers 0 of other commands)."
    )
