"""Time the steps of a training in its own runner, by replacing the batches of its loop."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, repeat
from statistics import fmean
from typing import Any

import torch
from mmengine.device import get_device
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch.utils.data import DataLoader
from torch.utils.flop_counter import FlopCounterMode

from ..models.unwrap import unwrap
from ..system.environment import reset_peak_bytes

MOST_STEP_S = 4.0
"""Time in s that a timed step on a CPU should take at most; it sets the number of images."""


def work_ns() -> Callable[[], int]:
    """Return a clock in ns: CPU time of this process on a CPU, else ``wall_ns``."""
    return time.process_time_ns if get_device() == "cpu" else wall_ns()


def wall_ns() -> Callable[[], int]:
    """Return a wall clock in ns that synchronizes the device before each reading."""
    synchronize = torch.get_device_module(get_device()).synchronize

    def read() -> int:
        synchronize()
        return time.perf_counter_ns()

    return read


@dataclass(eq=False, kw_only=True)
class LoadedSteps(Hook):
    """Time training steps including data loading, after a first step that compiles and allocates.

    It replaces the batches of the train loop, which trains on each before it asks for the next:
    the time around a ``yield`` is one step with all its hooks. After ``least`` steps, no step
    starts once ``max_seconds`` have passed.
    """

    least: int
    most: int
    max_seconds: float
    now: Callable[[], int] | None = None  # clock in ns; None is ``wall_ns``
    counts_flops: bool = False
    seconds: list[float] = field(default_factory=list)
    cpu_s: float = 0.0  # CPU time of this process in all timed steps
    flops: int = 0

    priority = "LOWEST"  # after the hooks that prepare model and data

    def before_train(self, runner: Runner) -> None:
        """Replace the batches."""
        self.runner = runner
        self.loader: Any = runner.train_loop.batches
        self.device = get_device()
        self._read = self.now or wall_ns()
        runner.train_loop.batches = self._until_the_last()

    def _until_the_last(self) -> Iterator[Any]:
        yield from self.steps()
        self.runner.train_loop.stop_training = True

    def steps(self) -> Iterator[Any]:
        """Yield batches, starting over after an epoch, and time the steps."""
        batches = chain.from_iterable(repeat(self.loader))
        yield next(batches)
        if self.counts_flops:
            batch = next(batches)
            with FlopCounterMode(display=False) as counter:
                yield batch
            self.flops = counter.get_total_flops()

        reset_peak_bytes(self.device)
        for number in range(self.most):
            if number >= self.least and sum(self.seconds) >= self.max_seconds:
                break
            start = self._read()
            work = time.process_time()
            yield next(batches)
            self.seconds.append((self._read() - start) / 1e9)
            self.cpu_s += time.process_time() - work


@dataclass(eq=False, kw_only=True)
class PretrainSteps(LoadedSteps):
    """Time steps of a pre-training with full queues, in at most a tenth of its time.

    On a CPU, long steps are timed with fewer images: ``num_timed`` of ``batch_size``, a multiple of
    ``unit``. On a GPU, prefetched batches are used first, so that a slow loader shows.
    """

    unit: int
    num_steps: int  # steps of the training
    limit_s: float = math.inf  # a tenth of the time budget

    @property
    def step_s(self) -> float:
        """Estimated seconds per step with all images."""
        return fmean(self.seconds) * self.batch_size / self.num_timed

    def steps(self) -> Iterator[Any]:
        """Choose the number of images, and time the steps."""
        unwrap(self.runner.model).fill_queues()
        self.batch_size = self.num_timed = self.loader.batch_size
        self.most = max(1, min(self.most, self.num_steps // 10 - 1))
        self.least = 1 if self.limit_s < math.inf else min(self.least, self.most)
        self.max_seconds = min(self.max_seconds, self.limit_s / 2)

        if self.device == "cpu" and self.unit < self.batch_size:
            batches = chain.from_iterable(repeat(self._loader_of(self.unit)))
            yield next(batches)
            start = self._read()
            yield next(batches)
            unit_s = (self._read() - start) / 1e9
            units = max(1, int(min(MOST_STEP_S, self.limit_s / 8) / unit_s))
            self.num_timed = min(self.batch_size, self.unit * units)
            self.loader = self._loader_of(self.num_timed)
        elif self.device != "cpu":
            batches = chain.from_iterable(repeat(self.loader))
            fetched = self.loader.num_workers * (self.loader.prefetch_factor or 0)
            for _ in range(min(fetched, self.most)):
                yield next(batches)

        yield from super().steps()

    def _loader_of(self, batch_size: int) -> DataLoader:
        names = (
            "num_workers",
            "timeout",
            "collate_fn",
            "worker_init_fn",
            "multiprocessing_context",
        )
        options = {name: getattr(self.loader, name) for name in names}
        dataset = self.loader.dataset
        return DataLoader(dataset, batch_size, shuffle=True, drop_last=True, **options)
