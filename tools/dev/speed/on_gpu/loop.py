"""The real loop on a GPU: runner, hooks, loader and prefetcher, from JPEG files (G7, G9)."""

import time
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.registry import DefaultScope
from mmengine.runner import Runner

from mmssprl.engine.runner import ConsoleRunner, end_workers
from mmssprl.pyramid import ViewLayout

from .measures import Workload
from .meter import Meter


class WatchHook(Hook):
    """Guards and times the steps of an epoch; runs after all other hooks.

    Args:
        meter: The device.
        workload: Which steps are guarded, and which are timed.
        data: A synthetic batch on the device.

    Attributes:
        guarded: Guarded steps that passed.
        jpeg_rate: Images per second from JPEG files.
        synthetic_rates: On the device, before and after the epoch.
    """

    priority = "LOWEST"

    def __init__(self, meter: Meter, workload: Workload, data: Any) -> None:
        self.meter, self.workload, self.data = meter, workload, data
        self.guarded = 0
        self.jpeg_rate = float("nan")
        self.synthetic_rates: list[float] = []
        self._start: Any = None

    def before_train(self, runner: Runner) -> None:
        """Time synthetic steps before the loader has started."""
        self._time_synthetic(runner)

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None
    ) -> None:
        """Change between the kinds of steps."""
        done, workload, meter = batch_idx + 1, self.workload, self.meter
        first, last = workload.warmup, workload.warmup + workload.guarded
        if first <= done <= last:
            self.guarded = done - first
            if done in (first, last):
                meter.forbid_waiting(done == first)
        if done == workload.num_steps - workload.timed:
            self._start = meter.mark()
        if done == workload.num_steps:
            seconds = meter.seconds_between(self._start, meter.mark())
            self.jpeg_rate = workload.timed * workload.batch / seconds

    def after_train(self, runner: Runner) -> None:
        """Time synthetic steps again."""
        self._time_synthetic(runner)

    def _time_synthetic(self, runner: Runner) -> None:
        def step() -> None:
            runner.model.train_step(self.data, runner.optim_wrapper)

        for _ in range(self.workload.warmup):
            step()
        seconds = self.meter.seconds_per_call(step, self.workload.synthetic)
        self.synthetic_rates.append(self.workload.batch / seconds)


def train_from_jpeg(cfg: Config, work_dir: Path, watch: WatchHook) -> str:
    """Train one epoch with the shipped hooks, and return where the host waited for the device.

    A wait in a guarded step ends the training. ``cfg`` is prepared by ``mmssprl.engine.launch`` and
    cut down to one epoch in a copy.
    """
    try:
        _train(cfg, work_dir, watch)
    except RuntimeError as error:
        if "synchroniz" not in str(error):
            raise
        return _where(error)
    finally:
        watch.meter.forbid_waiting(False)
    return ""


def _train(cfg: Config, work_dir: Path, watch: WatchHook) -> None:
    cfg, workload = Config(cfg.to_dict()), watch.workload
    cfg.work_dir = str(work_dir)
    cfg.experiment_name = work_dir.name  # the logger of another run of this process is not reused
    cfg.train_cfg.max_epochs = 1
    # The state of most epochs: nothing is frozen, and the queues are full before the guard begins.
    levels = ViewLayout.build(cfg.model.layout).levels
    cfg.model.head.update(
        freeze_epochs=0,
        queue_start_epoch=0,
        queue_length=2 * workload.batch,
        patch_queue_length=[2 * workload.batch * level.num_patches for level in levels],
    )
    _set_loader(cfg, workload, persistent_workers=workload.workers > 0)
    # Nothing is kept, and the end of the epoch is not timed.
    cfg.default_hooks.checkpoint.update(interval=-1, save_last=False)
    runner = ConsoleRunner.from_cfg(cfg)
    runner.register_hook(watch)
    try:
        runner.train()
    finally:
        end_workers(runner)


def loader_rate(cfg: Config, workload: Workload) -> float:
    """Images per second of the loader alone, after what it had made before."""
    cfg = Config(cfg.to_dict())
    _set_loader(cfg, workload, persistent_workers=False)
    with DefaultScope.overwrite_default_scope("mmssprl"):
        loader = Runner.build_dataloader(cfg.train_dataloader, seed=0)
    start = float("nan")
    for done, _ in enumerate(loader, start=1):
        if done == workload.drained:
            start = time.monotonic()
        if done == workload.drained + workload.timed:
            return workload.timed * workload.batch / (time.monotonic() - start)
    raise ValueError(f"the loader ended before {workload.drained + workload.timed} batches.")


def _set_loader(cfg: Config, workload: Workload, *, persistent_workers: bool) -> None:
    cfg.train_dataloader.update(
        batch_size=workload.batch,
        num_workers=workload.workers,
        persistent_workers=persistent_workers,
    )


def _where(error: RuntimeError) -> str:
    """Say which line of ours or mmengine's waited."""
    place, trace = "", error.__traceback__
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if {"mmssprl", "mmengine", "mmpretrain"} & set(file.parts):
            place = f"{'/'.join(file.parts[-3:])}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{str(error).splitlines()[0]} ({place})"
