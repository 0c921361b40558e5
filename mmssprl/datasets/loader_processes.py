"""Processes of loaders: room for their batches in shared memory, and an end to waiting for them."""

import math
import os
import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.dist import get_world_size
from mmengine.structures import BaseDataElement
from torch import Tensor
from torch.utils.data import DataLoader, get_worker_info

from ..errors import UserRuntimeError

LOADER_TIMEOUT_S = 300
"""Longest wait for a batch in s, unless a loader has its own: half of the wait for another rank."""
SHARED_MEMORY = Path("/dev/shm")
_NUM_MEASURED = 4
"""Samples that are measured; the largest stands for all."""
_PAGE_BYTES = 4096
_GIB = 2**30


def prepare_loaders(loaders: Mapping[str, DataLoader], log: Callable[[str], object]) -> None:
    """Set a timeout, or no processes if shared memory cannot hold the batches of all loaders.

    Call it in all ranks before a loader starts.

    Args:
        loaders: All loaders of a run, by the name that a user knows.
        log: Receives a line if shared memory is too small.
    """
    parallel = [loader for loader in loaders.values() if loader.num_workers > 0]
    num_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", get_world_size()))
    needed = num_ranks * sum(_shared_bytes(loader) for loader in parallel)
    free = _free_bytes()

    if needed > free:
        most = max(loader.num_workers for loader in parallel)
        log(
            f"{SHARED_MEMORY} has {_size(free)} free, but loader processes (num_workers={most}) "
            f"need {_size(needed)}: images are read without them, which is slower. In a "
            f"container, docker run --shm-size={math.ceil(needed / _GIB)}g makes room."
        )

    for loader in loaders.values():
        if needed > free:
            loader.num_workers = 0
        own = loader.timeout or LOADER_TIMEOUT_S
        loader.timeout = own if loader.num_workers else 0  # torch refuses another one
        loader.collate_fn = partial(_collate_shared, loader.collate_fn)


@contextmanager
def explain_timeout(name: Callable[[], str]) -> Iterator[None]:
    """Turn the timeout of a loader into one line; ``name`` returns its name.

    Raises:
        UserRuntimeError: A loader has given no batch for too long.
    """
    try:
        yield
    except RuntimeError as error:
        found = re.match(r"DataLoader timed out after (\d+)", str(error))
        if found is None:
            raise
        raise UserRuntimeError(
            f"the processes of {name()} gave no batch for {found[1]} s; resume if the command "
            f"was suspended, else check the disk of the images, the memory and {SHARED_MEMORY}, or "
            "read without processes, num_workers=0."
        ) from error


def _collate_shared(collate: Callable[[list], Any], samples: list) -> Any:
    """Return a batch, in a loader's process one that is in shared memory.

    Else the thread that sends it moves it there. If there is no room, that thread prints a
    traceback, and the batch never arrives.
    """
    batch = collate(samples)
    if get_worker_info() is not None:
        for tensor in _tensors_in(batch):
            tensor.share_memory_()
    return batch


def _tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping | BaseDataElement):
        for each in value.values():
            yield from _tensors_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors_in(each)
    elif isinstance(getattr(value, "tensor", None), Tensor):  # boxes of mmdet
        yield value.tensor


def _shared_bytes(loader: Any) -> int:
    """Return the bytes of the batches and locks of a loader's processes."""
    batch_size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", 1)
    # One more is being trained on.
    num_batches = loader.num_workers * loader.prefetch_factor + 1
    # A queue has three locks, an event has six, each on its own page.
    num_locks = 3 * (loader.num_workers + 1) + 6
    return num_batches * batch_size * _sample_bytes(loader) + num_locks * _PAGE_BYTES


def _sample_bytes(loader: Any) -> int:
    """Return the bytes in shared memory of the largest of some samples."""
    dataset = loader.dataset
    example = getattr(dataset, "example_at", dataset.__getitem__)
    largest = 0
    with _same_generators():
        for index in range(min(_NUM_MEASURED, len(dataset))):
            tensors = _tensors_in(loader.collate_fn([example(index)]))
            pages = sum(math.ceil(tensor.nbytes / _PAGE_BYTES) for tensor in tensors)
            largest = max(largest, pages * _PAGE_BYTES)
    return largest


@contextmanager
def _same_generators() -> Iterator[None]:
    """Leave the random generators of Python, numpy and torch as they were."""
    of_python = random.getstate()
    of_numpy = np.random.get_state()  # noqa: NPY002  OpenMMLab's transforms draw from it
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)  # noqa: NPY002


def has_room_for_process() -> bool:
    """Return whether shared memory has room for the locks of a process that returns a value."""
    return _free_bytes() >= 16 * _PAGE_BYTES


def _free_bytes() -> float:
    """Return the free bytes of shared memory; infinity where it is no file system."""
    try:
        found = os.statvfs(SHARED_MEMORY)
    except OSError:
        return math.inf
    return found.f_bavail * found.f_frsize


def _size(num_bytes: float) -> str:
    return f"{num_bytes / 1e6:,.0f} MB" if num_bytes >= 1e7 else f"{num_bytes / 1e3:,.0f} kB"
