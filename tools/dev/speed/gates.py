"""What is measured, what is fast enough, and how two sides are timed against each other.

Each number of a report has a line here. A gate must be met; a line without one informs.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple

import cv2
import torch


class Gate(NamedTuple):
    """What a number is, and what it is judged by."""

    what: str  # in one line
    unit: str  # 'x' for a ratio
    gate: float | None = None  # what must be reached, equal is enough; None for what only informs
    better: Literal["higher", "lower"] = "higher"


@dataclass(frozen=True)
class Row:
    """One measured number."""

    id: str  # the gate, such as 'C1', or a short name where there is none; unique in a report
    judged: Gate
    value: float  # NaN meets no gate
    quartiles: tuple[float, float] | None = None  # lower and upper one, where there were rounds
    note: str = ""  # what a reader must know to judge the number

    @property
    def passed(self) -> bool | None:
        """Whether the gate is met; None without a gate."""
        bound = self.judged.gate
        if bound is None:
            return None
        return self.value >= bound if self.judged.better == "higher" else self.value <= bound


def measured(
    row_id: str, *values: float, note: str = "", gates: bool = True, info: Gate | None = None
) -> Row:
    """Return the row of a number, or of a median with its quartiles; ``info`` if no gate is."""
    judged = info or GATES[row_id]
    if not gates:
        judged = judged._replace(gate=None)
    value, *quartiles = values
    return Row(row_id, judged, value, (quartiles[0], quartiles[1]) if quartiles else None, note)


_CPU = {
    "C1": Gate("our loader against torchvision/PIL, 34 crops", "x", 10),
    "C2": Gate("the same with our photometric work on the CPU, 34 crops", "x", 4),
    "C3": Gate("our loader against decoding alone, 34 crops", "x", 3, "lower"),
    "C5": Gate("bytes per image crossing processes, against float32 crops", "x", 0.26, "lower"),
    "C6": Gate("tensors per sample", "", 4, "lower"),
    "C7": Gate("convolution FLOPs over the GEMM peak and the time of the whole step", "x", 0.42),
    "C8": Gate(
        "whole training step against forward and backward of the backbone alone", "x", 1.10, "lower"
    ),
    "C9": Gate("host syncs of a step between log steps, in mmengine's runner", "", 0, "lower"),
    "C10": Gate("collectives a step for all Sinkhorn problems", "", 4, "lower"),
}

_ACTIVATION_MB = 318  # of one image with 28 crops, derived from the layers; G10 allows 1.35 of it

_AGAINST_PLAIN = "images/s in crops of 224 px of equal FLOPs, against a plain ResNet"
_SHARE = "augmentation's share of a step"
_GPU = {
    "G1": Gate(f"28 crops, eager: {_AGAINST_PLAIN}", "x", 0.90),
    "G1-34": Gate(f"34 crops, eager: {_AGAINST_PLAIN}", "x", 0.90),
    "G1-compiled": Gate(f"28 crops, compiled: {_AGAINST_PLAIN}", "x", 0.90),
    "G1-34-compiled": Gate(f"34 crops, compiled: {_AGAINST_PLAIN}", "x", 0.90),
    "G2": Gate("28 crops, synthetic batch, eager", "images/s", 550),
    "G2-compiled": Gate("28 crops, synthetic batch, compiled", "images/s", 550),
    "G6": Gate(f"{_SHARE}, 28 crops, eager", "", 0.10, "lower"),
    "G6-compiled": Gate(f"{_SHARE}, 28 crops, compiled", "", 0.04, "lower"),
    "G7": Gate("28 crops, eager, from JPEG with our loader, against synthetic", "x", 0.95),
    "G9": Gate("the host waits for the GPU between log steps, 1 if so", "", 0, "lower"),
    "G10": Gate(
        "peak memory per image, weights and all, 28 crops, eager",
        "MB",
        1.35 * _ACTIVATION_MB,
        "lower",
    ),
}

GATES: dict[str, Gate] = {**_CPU, **_GPU}
"""Id -> what it is; ids stay, for results are compared by them."""


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
