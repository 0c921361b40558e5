"""The shared memory through which the workers of a data loader hand over their batches."""

import os
import shutil
from pathlib import Path

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
    usage = shutil.disk_usage(FOLDER)
    if usage.free < max(needed, _LEAST):
        size = f", {needed / 1e6:,.1f} MB" if needed > _LEAST else ""
        raise UserOSError(
            f"shared memory must have room for what a data loader's workers hand over{size}, but "
            f"{FOLDER} has {usage.free / 1e6:,.1f} of {usage.total / 1e6:,.1f} MB free; give a "
            "container more (docker run --shm-size=8g), or load without workers (num_workers=0 of "
            "the data loader, --workers 0 of pretrain, --num-workers 0 of other commands)."
        )
