"""The one way to time the steps of a training: its runner, whose loop is asked for batches."""

import time
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any

import torch
from mmengine.device import get_device
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch.utils.flop_counter import FlopCounterMode

from ..engine.device_prefetcher import Prefetcher
from ..system.environment import reset_peak_bytes
from .clock import PhaseClock


class Stopwatch(Hook):
    """Takes the place of the runner's loader, and measures what happens between two batches.

    The loop asks ``steps`` for a batch, trains on it and asks for the next: so a context around a
    ``yield`` lasts for one step with all its hooks. The training ends with the last batch.
    """

    priority = "LOWEST"  # the others have prepared model and data

    def before_train(self, runner: Runner) -> None:
        """Take the place of the loader."""
        self.runner = runner
        self.loader = runner.train_loop.dataloader
        self.device = get_device()
        self.synchronize = torch.get_device_module(self.device).synchronize
        self.clock = self.make_clock()
        runner.train_loop.dataloader = _Batches(self.loader, self._until_the_last())

    def make_clock(self) -> PhaseClock:
        """Return what times the steps: wall time, waiting for the device."""
        return PhaseClock(synchronize=self.synchronize)

    def steps(self) -> Iterator[Any]:
        """Yield the batches of all steps."""
        raise NotImplementedError

    def _until_the_last(self) -> Iterator[Any]:
        yield from self.steps()
        self.runner.train_loop.stop_training = True


class LoadedSteps(Stopwatch):
    """Times steps with the loading of their data, after one that compiles and allocates.

    Args:
        least: Steps that are timed at least.
        most: At most.
        max_seconds: After which none begins, but for the least number.
        now: Nanoseconds, see ``PhaseClock``; None takes wall time.
        counts_flops: Whether the operations of one more step are counted.
    """

    def __init__(
        self,
        *,
        least: int,
        most: int,
        max_seconds: float,
        now: Callable[[], int] | None = None,
        counts_flops: bool = False,
    ) -> None:
        self.least, self.most, self.max_seconds = least, most, max_seconds
        self.now, self.counts_flops = now, counts_flops
        self.seconds: list[float] = []
        self.flops = 0

    def make_clock(self) -> PhaseClock:
        """Return the clock that was asked for."""
        return PhaseClock(self.now) if self.now else super().make_clock()

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


def validation_s(runner: Runner, max_seconds: float) -> float:
    """Return the seconds of a whole validation without its score, from a part of it."""
    runner.model.eval()
    loader = runner.val_loop.dataloader
    start = time.perf_counter()
    with torch.no_grad():
        for num_batches, batch in enumerate(loader, start=1):  # noqa: B007
            runner.model.val_step(batch)
            if time.perf_counter() - start > max_seconds:
                break
    return (time.perf_counter() - start) * len(loader) / num_batches


class _Batches(Prefetcher):
    """The loader but for its batches."""

    def __init__(self, loader: Any, batches: Iterator[Any]) -> None:
        self.loader = loader
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return self._batches
