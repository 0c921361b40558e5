"""CPU time that one image costs the loader, measured in this process on one thread."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..datasets import UnlabeledImages
from ..system.environment import torch_threads
from .clock import REST, PhaseClock

DECODE = "read and decode"
CROP = "crop"
COLLATE = "collate"

NUM_BATCHES = 4
"""Batches that are kept; the steps take them in turn."""

_MIN_IMAGES = 64
_TIME_LIMIT_S = 20.0


@dataclass(frozen=True)
class LoaderCost:
    """What an image costs.

    Attributes:
        ms: CPU milliseconds of one core per image, by phase.
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
        return sum(self.ms.values())


@torch_threads(1)  # as in a loader's worker
def measure_loader(
    dataset: UnlabeledImages,
    indices: Sequence[int],
    collate: Callable[[list], Any],
    *,
    batch_size: int,
) -> tuple[LoaderCost, list[Any]]:
    """Load images, time it, and keep the first batches.

    Args:
        dataset: The images with their pipeline.
        indices: Images to take, in this order; as many as fill ``NUM_BATCHES`` batches, or 64 if
            that is more; fewer, but one batch, if that takes long.
        collate: Makes a batch of a list of samples.
        batch_size: At most the number of indices.

    Returns:
        The cost per image, and up to ``NUM_BATCHES`` batches.
    """
    wanted = max(_MIN_IMAGES, NUM_BATCHES * batch_size)
    clock = PhaseClock(time.process_time_ns)
    cpu_ns: Counter[str] = Counter()
    samples: list[Any] = []
    dataset.load_image = clock.phase(DECODE)(dataset.load_image)  # type: ignore[method-assign]
    try:
        dataset[indices[0]]  # imports, first calls
        start = time.perf_counter()
        for num_images, index in enumerate(indices[:wanted], start=1):
            with clock.step() as times:
                sample = dataset[index]
            cpu_ns += times
            if len(samples) < NUM_BATCHES * batch_size:
                samples.append(sample)
            wall = time.perf_counter() - start
            if wall > _TIME_LIMIT_S and num_images >= batch_size:
                break
        ms = {DECODE: cpu_ns[DECODE] / num_images / 1e6, CROP: cpu_ns[REST] / num_images / 1e6}
        whole = len(samples) // batch_size * batch_size
        begin = time.process_time_ns()
        batches = [collate(samples[i : i + batch_size]) for i in range(0, whole, batch_size)]
        ms[COLLATE] = (time.process_time_ns() - begin) / whole / 1e6
    finally:
        del dataset.load_image
    return LoaderCost(ms, num_images, wall * 1e9 / cpu_ns.total()), batches
