"""The real loop on a GPU: runner, hooks, loader and prefetcher, from JPEG files (G7, G9)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.registry import DefaultScope
from mmengine.runner import Runner

from mmssprl.pyramid import ViewLayout

from .meter import Meter


@dataclass(frozen=True)
class LoopSizes:
    """Steps of one training epoch, in this order.

    Args:
        batch: Images per step.
        warmup: Steps in which kernels are chosen.
        guarded: Steps in which the host must not wait for the device; none of them is logged.
        drained: Steps in which most batches are used up that the loader had made before.
        timed: Steps that are timed.
        synthetic: Steps on one batch that stays on the device, before and after the epoch.
        workers: Processes of the loader.
    """

    batch: int
    warmup: int
    guarded: int
    drained: int
    timed: int
    synthetic: int
    workers: int

    @property
    def num_steps(self) -> int:
        """Steps of the epoch."""
        return self.warmup + self.guarded + self.drained + self.timed


@dataclass
class LoopResult:
    """What one training has shown; rates are images per second.

    Args:
        waits: The error of the first wait in a guarded step; empty if there was none.
        guarded: Guarded steps that passed.
        jpeg_rate: From JPEG files.
        synthetic_rates: On the device, before and after the epoch.
    """

    waits: str = ""
    guarded: int = 0
    jpeg_rate: float = float("nan")
    synthetic_rates: list[float] = field(default_factory=list)


class WatchHook(Hook):
    """Guards and times the steps of an epoch; runs after all other hooks.

    Args:
        meter: The device.
        sizes: Which steps.
        result: Filled.
        data: A synthetic batch on the device.
        guard: False leaves out the guard, where it has stopped a run before.
    """

    priority = "LOWEST"

    def __init__(
        self, meter: Meter, sizes: LoopSizes, result: LoopResult, data: Any, *, guard: bool
    ) -> None:
        self.meter = meter
        self.sizes = sizes
        self.result = result
        self.data = data
        self.guard = guard
        self._start: Any = None

    def before_train(self, runner: Runner) -> None:
        """Time synthetic steps before the loader has started."""
        self._time_synthetic(runner)

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None
    ) -> None:
        """Change between the kinds of steps."""
        done, sizes, meter = batch_idx + 1, self.sizes, self.meter
        first, last = sizes.warmup, sizes.warmup + sizes.guarded
        if self.guard and first <= done <= last:
            self.result.guarded = done - first
            if done in (first, last):
                meter.forbid_waiting(done == first)
        if done == sizes.num_steps - sizes.timed:
            self._start = meter.mark()
        if done == sizes.num_steps:
            seconds = meter.seconds_between(self._start, meter.mark())
            self.result.jpeg_rate = sizes.timed * sizes.batch / seconds

    def after_train(self, runner: Runner) -> None:
        """Time synthetic steps again."""
        self._time_synthetic(runner)

    def _time_synthetic(self, runner: Runner) -> None:
        def step() -> None:
            runner.model.train_step(self.data, runner.optim_wrapper)

        for _ in range(self.sizes.warmup):
            step()
        seconds = self.meter.seconds_per_call(step, self.sizes.synthetic)
        self.result.synthetic_rates.append(self.sizes.batch / seconds)


def train_from_jpeg(
    meter: Meter, cfg: Config, sizes: LoopSizes, work_dir: Path, data: dict[str, Any]
) -> LoopResult:
    """Train one epoch with the shipped hooks; see ``LoopSizes`` and ``LoopResult``.

    Args:
        meter: The device.
        cfg: Prepared by ``mmssprl.engine.launch``; it is copied and cut down to one epoch.
        sizes: Steps of the epoch.
        work_dir: Folder for the run, empty.
        data: A synthetic batch on the device.
    """
    result = LoopResult()
    try:
        watch = WatchHook(meter, sizes, result, data, guard=True)
        _train(cfg, sizes, work_dir / "guarded", watch)
        return result
    except RuntimeError as error:
        if "synchroniz" not in str(error):
            raise
        result = LoopResult(waits=_where(error))
    finally:
        meter.forbid_waiting(False)
    meter.free()  # of the run that was stopped, which the error kept
    watch = WatchHook(meter, sizes, result, data, guard=False)
    _train(cfg, sizes, work_dir / "unguarded", watch)
    return result


def _train(cfg: Config, sizes: LoopSizes, work_dir: Path, watch: WatchHook) -> None:
    cfg = Config(cfg.to_dict())
    cfg.work_dir = str(work_dir)
    cfg.experiment_name = work_dir.name  # the logger of another run of this process is not reused
    cfg.train_cfg.max_epochs = 1
    # The state of most epochs: nothing is frozen, and the queues are full before the guard begins.
    levels = ViewLayout.build(cfg.model.layout).levels
    cfg.model.head.update(
        freeze_epochs=0,
        queue_start_epoch=0,
        queue_length=2 * sizes.batch,
        patch_queue_length=[2 * sizes.batch * level.grid**2 for level in levels],
    )
    _set_loader(cfg, sizes, persistent_workers=sizes.workers > 0)
    # Nothing is kept, and the end of the epoch is not timed.
    cfg.default_hooks.checkpoint.update(interval=-1, save_last=False)
    runner = Runner.from_cfg(cfg)
    runner.register_hook(watch)
    runner.train()


def loader_rate(cfg: Config, sizes: LoopSizes) -> float:
    """Images per second of the loader alone, after what it had made before."""
    cfg = Config(cfg.to_dict())
    _set_loader(cfg, sizes, persistent_workers=False)
    with DefaultScope.overwrite_default_scope("mmssprl"):
        loader = Runner.build_dataloader(cfg.train_dataloader, seed=0)
    start = float("nan")
    for done, _ in enumerate(loader, start=1):
        if done == sizes.drained:
            start = time.monotonic()
        if done == sizes.drained + sizes.timed:
            return sizes.timed * sizes.batch / (time.monotonic() - start)
    raise ValueError(f"the loader ended before {sizes.drained + sizes.timed} batches.")


def _set_loader(cfg: Config, sizes: LoopSizes, *, persistent_workers: bool) -> None:
    cfg.train_dataloader.update(
        batch_size=sizes.batch,
        num_workers=sizes.workers,
        persistent_workers=persistent_workers,
    )


def write_list(path: Path, names: Sequence[str], num_images: int) -> Path:
    """Write a list of images that names few files as often as an epoch needs."""
    lines = [names[i % len(names)] for i in range(num_images)]
    path.write_text("\n".join(lines) + "\n")
    return path


def _where(error: RuntimeError) -> str:
    """Say which line of ours or mmengine's waited."""
    place, trace = "", error.__traceback__
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if {"mmssprl", "mmengine", "mmpretrain"} & set(file.parts):
            place = f"{'/'.join(file.parts[-3:])}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{str(error).splitlines()[0]} ({place})"
