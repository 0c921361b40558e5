"""The one way to time the steps of a training: its runner, whose loop is asked for batches."""

import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, repeat
from statistics import median
from typing import Any

import torch
from mmengine.device import get_device
from mmengine.dist import get_world_size
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch.utils.flop_counter import FlopCounterMode

from ..datasets import UnlabeledImages
from ..engine.hooks import Prefetcher
from ..system.environment import reset_peak_bytes, torch_threads

REST = "rest"
"""The phase of a step's time that no other phase claims."""
DECODE = "read and decode"
NUM_BATCHES = 4  # batches that are kept; the steps take them in turn

_MIN_IMAGES = 64
_TIME_LIMIT_S = 20.0
_COMPARING_S, _ROUNDS = 4.0, 5
"""After both, no more steps are taken to choose the number of threads."""
_LONGEST_S = 20.0
"""After it fewer rounds do: one step of other work's making is then as long as many."""
_LEAST_GAIN = 1.1
"""How many times faster all threads must be than one: what they gain beside other work is often
chance, and what they lose later is not."""


def work_ns() -> Callable[[], int]:
    """Return a clock in ns: work of this process's threads on a CPU, else time of the device."""
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
    sum is the time of the step, exactly, because both are made of the same integers. ``now`` is
    the time in nanoseconds; ``synchronize`` waits for the device before each reading.
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
        """Measure one step; yield nanoseconds per phase, complete when the context ends."""
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


@torch_threads(1)  # as in a loader's worker
def measure_loader(
    dataset: UnlabeledImages,
    indices: Sequence[int],
    collate: Callable[[list], Any],
    *,
    batch_size: int,
) -> tuple[dict[str, float], list[Any]]:
    """Load images, and return CPU milliseconds per image by phase, and up to 4 batches.

    At least 64 images, or those of the batches; fewer, but one batch, if that takes long.
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


class Stopwatch(Hook):
    """Takes the place of the runner's loader, and measures what happens between two batches.

    The loop asks ``steps`` for a batch, trains on it and asks for the next: so a context around a
    ``yield`` lasts for one step with all its hooks. The training ends with the last batch.
    """

    now: Callable[[], int] | None = None  # nanoseconds in place of wall time
    priority = "LOWEST"  # the others have prepared model and data

    def before_train(self, runner: Runner) -> None:
        """Take the place of the loader."""
        self.runner = runner
        self.loader = runner.train_loop.dataloader
        self.device = get_device()
        self.synchronize = torch.get_device_module(self.device).synchronize
        self.clock = PhaseClock(self.now or time.perf_counter_ns, self.synchronize)
        runner.train_loop.dataloader = _Batches(self.loader, self._until_the_last())

    def steps(self) -> Iterator[Any]:
        """Yield the batches of all steps."""
        raise NotImplementedError

    def _until_the_last(self) -> Iterator[Any]:
        yield from self.steps()
        self.runner.train_loop.stop_training = True


@dataclass(eq=False, kw_only=True)
class LoadedSteps(Stopwatch):
    """Times steps with the loading of their data, after one that compiles and allocates.

    No step begins after ``max_seconds``, but for the least number; ``now`` is a clock in ns.
    """

    least: int
    most: int
    max_seconds: float
    now: Callable[[], int] | None = None
    counts_flops: bool = False
    seconds: list[float] = field(default_factory=list)
    flops: int = 0

    def steps(self) -> Iterator[Any]:
        """Yield batches of the loader, from the first again where an epoch has fewer."""
        batches = chain.from_iterable(repeat(self.loader))
        yield next(batches)
        if self.counts_flops:
            batch = next(batches)
            with FlopCounterMode(display=False) as counter:
                yield batch
            self.flops = counter.get_total_flops()
        reset_peak_bytes(self.device)
        while len(self.seconds) < self.least or (
            len(self.seconds) < self.most and sum(self.seconds) < self.max_seconds
        ):
            with self.clock.step() as times:
                yield next(batches)
            self.seconds.append(times.total() / 1e9)


def choose_threads(watch: Stopwatch, batches: Iterator[Any]) -> Generator[Any, None, float | None]:
    """Take steps with all threads and with one in turns, and go on with the faster number.

    Beside other work the threads wait for the slowest one. Returns the median seconds of a step;
    None on a device, with several processes, or where the user or the config gives the number.
    """
    everything = torch.get_num_threads()
    if everything == 1 or watch.device != "cpu" or get_world_size() > 1:
        return None
    if "OMP_NUM_THREADS" in os.environ or watch.runner.cfg.get("num_threads"):
        return None
    times: dict[int, list[int]] = {everything: [], 1: []}
    start = time.perf_counter()
    while time.perf_counter() - start < (_COMPARING_S if len(times[1]) >= _ROUNDS else _LONGEST_S):
        for number, of_number in times.items():
            torch.set_num_threads(number)
            with watch.clock.step() as phases:
                yield next(batches)
            of_number.append(phases.total())
    of_all, of_one = median(times[everything]), median(times[1])
    chosen, step_ns = (1, of_one) if of_all * _LEAST_GAIN > of_one else (everything, of_all)
    torch.set_num_threads(chosen)
    return step_ns / 1e9


class _Batches(Prefetcher):
    """The loader but for its batches."""

    def __init__(self, loader: Any, batches: Iterator[Any]) -> None:
        self.loader = loader
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return self._batches
