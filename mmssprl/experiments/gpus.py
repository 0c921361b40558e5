"""Which GPUs the commands of a run see: runs at a time have each their own."""

import os
import threading
from collections.abc import Sequence
from queue import SimpleQueue

import torch

from ..system.environment import usable_cores

_of_thread = threading.local()


def groups_of_gpus(size: int = 1) -> list[str]:
    """Return values of CUDA_VISIBLE_DEVICES with ``size`` each of the GPUs that are visible here.

    Fewer than ``size`` are one group, and what is left over belongs to none. Empty without GPUs.
    """
    if not torch.cuda.is_available():
        return []
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = listed.split(",") if listed else [str(i) for i in range(torch.cuda.device_count())]
    starts = range(0, max(1, len(names) - size + 1), size)
    return [",".join(names[i : i + size]) for i in starts]


def default_jobs(groups: Sequence[str]) -> int:
    """Return how many runs this machine does well at a time."""
    return len(groups) or usable_cores()


def take_group(groups: "SimpleQueue[str]") -> None:
    """Let the runs of this thread have the next group; the initializer of a pool of threads."""
    _of_thread.group = groups.get()


def environment_of_thread() -> dict[str, str]:
    """Return what is set for the commands that this thread starts."""
    group = getattr(_of_thread, "group", "")
    return {"CUDA_VISIBLE_DEVICES": group} if group else {}
