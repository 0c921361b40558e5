"""Split the time of a step into phases of which exactly one is open at any moment."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from mmengine.device import get_device

REST = "rest"
"""The phase of a step's time that no other phase claims."""


def work_ns() -> Callable[[], int]:
    """Return a clock in nanoseconds: of this process on a CPU, of the device where there is one.

    A CPU's counts the work of all threads of this process, and no waiting for other processes.
    """
    device = get_device()
    if device == "cpu":
        return time.process_time_ns
    synchronize = torch.get_device_module(device).synchronize

    def read() -> int:
        synchronize()
        return time.perf_counter_ns()

    return read


class PhaseClock:
    """Books every nanosecond of a step to one phase.

    Phases nest: the inner one takes its time from the outer one. So they never overlap, and their
    sum is the time of the step, exactly, because both are made of the same integers.

    Args:
        now: The time in nanoseconds; wall or CPU time.
        synchronize: Waits for the device; called before each reading.
    """

    def __init__(
        self,
        now: Callable[[], int] = time.perf_counter_ns,
        synchronize: Callable[[], object] = lambda: None,
    ) -> None:
        self._now = now
        self._synchronize = synchronize
        self._times: Counter[str] | None = None
        self._open: list[str] = []
        self._last = 0

    @contextmanager
    def step(self) -> Iterator[Counter[str]]:
        """Measure one step, which begins in the phase ``REST``.

        Yields:
            Nanoseconds per phase, complete when the context ends.
        """
        times: Counter[str] = Counter()
        self._open = [REST]
        self._last = self._read()
        self._times = times
        try:
            yield times
            self._book()
        finally:
            self._times = None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Book what runs inside to ``name``; without a step nothing is read or waited for."""
        if self._times is None:
            yield
            return
        self._book()
        self._open.append(name)
        try:
            yield
        finally:
            self._book()
            self._open.pop()

    def go_on_as(self, name: str) -> None:
        """End the innermost open phase and book the rest of its context to ``name``."""
        if self._times is not None:
            self._book()
            self._open[-1] = name

    def _read(self) -> int:
        self._synchronize()
        return self._now()

    def _book(self) -> None:
        now = self._read()
        if self._times is not None:
            self._times[self._open[-1]] += now - self._last
        self._last = now
