"""CPU time that one image costs the loader, measured in this process on one thread."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader

from ..datasets import UnlabeledImages
from .clock import REST, PhaseClock, replaced

DECODE = "read and decode"
CROP = "crop"
COLLATE = "collate"
TRANSFER = "between processes"

NUM_BATCHES = 4
"""Batches that are kept; the steps take them in turn."""

_MIN_IMAGES = 64
_TIME_LIMIT_S = 20.0
_NUM_TRANSFERS = 8


@dataclass(frozen=True)
class LoaderCost:
    """What an image costs.

    Attributes:
        ms: CPU milliseconds of one core per image, by phase. ``TRANSFER`` is paid by the training
            process, the others by the workers.
        num_images: Images measured.
        wall_over_cpu: Wall time over CPU time of ``DECODE`` and ``CROP``; far above 1 where
            reading waits for the disk.
    """

    ms: dict[str, float]
    num_images: int
    wall_over_cpu: float

    @property
    def worker_ms(self) -> float:
        """CPU milliseconds of a worker per image."""
        return sum(value for name, value in self.ms.items() if name != TRANSFER)


def measure_loader(
    dataset: UnlabeledImages,
    indices: Sequence[int],
    collate: Callable[[list], Any],
    *,
    batch_size: int,
    use_workers: bool,
) -> tuple[LoaderCost, list[Any]]:
    """Load images, time it, and keep the first batches.

    Args:
        dataset: The images with their pipeline.
        indices: Images to take, in this order; as many as fill ``NUM_BATCHES`` batches, or 64 if
            that is more; fewer, but one batch, if that takes long.
        collate: Makes a batch of a list of samples.
        batch_size: At most the number of indices.
        use_workers: Whether batches cross processes.

    Returns:
        The cost per image, and up to ``NUM_BATCHES`` batches.
    """
    wanted = max(_MIN_IMAGES, NUM_BATCHES * batch_size)
    clock = PhaseClock(time.process_time_ns)
    cpu_ns = {DECODE: 0, CROP: 0}
    samples: list[Any] = []
    with _one_thread():
        dataset[indices[0]]  # imports, first calls
        start = time.perf_counter()
        num_images = 0
        with replaced(dataset, "load_image", clock.timed(dataset.load_image, DECODE)):
            for index in indices[:wanted]:
                with clock.step() as times:
                    sample = dataset[index]
                num_images += 1
                cpu_ns[DECODE] += times[DECODE]
                cpu_ns[CROP] += times[REST]
                if len(samples) < NUM_BATCHES * batch_size:
                    samples.append(sample)
                wall = time.perf_counter() - start
                if wall > _TIME_LIMIT_S and num_images >= batch_size:
                    break
        ms = {name: value / num_images / 1e6 for name, value in cpu_ns.items()}
        parts = [samples[i : i + batch_size] for i in range(0, len(samples), batch_size)]
        if len(parts[-1]) < batch_size:
            parts.pop()
        begin = time.process_time_ns()
        batches = [collate(part) for part in parts]
        collate_ns = time.process_time_ns() - begin
        ms[COLLATE] = collate_ns / (len(parts) * batch_size) / 1e6
        if use_workers:
            ms[TRANSFER] = _transfer_ms(samples[:batch_size], collate)
    wall_over_cpu = wall * 1e9 / sum(cpu_ns.values())
    return LoaderCost(ms, num_images, wall_over_cpu), batches


def _transfer_ms(samples: list[Any], collate: Callable[[list], Any]) -> float:
    """CPU time of this process per image of a batch that a worker made of ready samples."""
    loader: DataLoader = DataLoader(
        samples * _NUM_TRANSFERS,  # type: ignore[arg-type]  # a list is a map-style data set
        batch_size=len(samples),
        collate_fn=collate,
        num_workers=1,
    )
    batches = iter(loader)
    next(batches)  # the worker's start is over
    begin = time.process_time_ns()
    count = sum(1 for _ in batches)
    return (time.process_time_ns() - begin) / (count * len(samples)) / 1e6


@contextmanager
def _one_thread() -> Iterator[None]:
    """As in a loader's worker."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
