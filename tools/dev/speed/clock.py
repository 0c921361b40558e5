"""How two sides are timed against each other on a CPU, and statistics of their rounds."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import cv2
import torch

Quartiles = tuple[float, float, float]
"""Median, lower and upper quartile over the rounds."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch and OpenCV work with one thread, as they do in a loader's worker."""
    before = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])


def take_turns(
    sides: Mapping[str, Callable[[], object]],
    rounds: int,
    seconds_of: Callable[[Callable[[], object]], float],
) -> dict[str, list[float]]:
    """Time all sides in turn, A B, B A, ..., so that a slow minute meets all; seconds by round."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides)
    for _ in range(rounds):
        for name in order:
            seconds[name].append(seconds_of(sides[name]))
        order.reverse()
    return seconds


def interleave(sides: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return CPU seconds per round of sides that take turns on one thread, warm."""
    with one_thread():
        for work in sides.values():
            work()
        return take_turns(sides, rounds, _cpu_seconds)


def _cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def quartiles(values: Sequence[float]) -> Quartiles:
    """Return the median and the lower and upper quartile of at least one number."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, low, high


def ratio(slow: Sequence[float], fast: Sequence[float]) -> Quartiles:
    """Return how many times ``fast`` fits into ``slow``, seconds of the same rounds."""
    return quartiles([a / b for a, b in zip(slow, fast, strict=True)])
