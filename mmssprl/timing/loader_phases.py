"""CPU time that one image costs the loader, measured in this process on one thread."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ..datasets import UnlabeledImages
from ..system.environment import torch_threads
from .stopwatch import REST, PhaseClock

DECODE = "read and decode"
NUM_BATCHES = 4
"""Batches that are kept; the steps take them in turn."""

_MIN_IMAGES = 64
_TIME_LIMIT_S = 20.0


@torch_threads(1)  # as in a loader's worker
def measure_loader(
    dataset: UnlabeledImages,
    indices: Sequence[int],
    collate: Callable[[list], Any],
    *,
    batch_size: int,
) -> tuple[dict[str, float], list[Any]]:
    """Load images, and return CPU milliseconds per image by phase, and up to 4 batches.

    There are as many images as fill these batches, or 64 if that is more; fewer, but one batch, if
    that takes long. ``indices`` are at least ``batch_size``, and are taken in their order.
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
            if time.perf_counter() - start > _TIME_LIMIT_S and num_images >= batch_size:
                break
    finally:
        del dataset.load_image
    whole = len(samples) // batch_size * batch_size
    begin = time.process_time_ns()
    batches = [collate(samples[i : i + batch_size]) for i in range(0, whole, batch_size)]
    collate_ns = time.process_time_ns() - begin
    ms = {DECODE: cpu_ns[DECODE] / num_images / 1e6, "crop": cpu_ns[REST] / num_images / 1e6}
    return {**ms, "collate": collate_ns / whole / 1e6}, batches
