"""The steps that ``gpu`` measures: ours, a plain ResNet's, and the runner's loop.

The tests run them on a CPU. Legend: B images, N_g crops per image in a resolution group.
"""

import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.nn import functional as F

from mmssprl.engine.runner import ConsoleRunner, end_workers
from mmssprl.functional.pooling import pool
from mmssprl.pyramid import ViewLayout

from .models import build_model, random_batch

_NUM_CLASSES = 1000


def mark(device: torch.device) -> Any:
    """Put a mark into the device's stream of work; on a CPU it is the time."""
    if device.type == "cpu":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def seconds_between(start: Any, end: Any) -> float:
    """Wait for two marks and return the device's time between them."""
    if isinstance(start, float):
        return end - start
    end.synchronize()
    return start.elapsed_time(end) * 1e-3


def seconds_per_call(device: torch.device, work: Callable[[], object], repeats: int) -> float:
    """Time calls in a row on the device, without a wait in between."""
    start = mark(device)
    for _ in range(repeats):
        work()
    return seconds_between(start, mark(device)) / repeats


class Pretraining:
    """A config's model with its optimizer and one synthetic batch on the device."""

    def __init__(self, cfg: Config, device: torch.device, batch: int) -> None:
        self.device = device
        self.batch = batch
        self.model = build_model(cfg).to(device)
        with DefaultScope.overwrite_default_scope("mmssprl"):
            self.optim_wrapper = build_optim_wrapper(self.model, cfg.optim_wrapper)
        self.data = random_batch(self.model.layout, batch, device)
        self.losses: dict[str, Tensor] = {}

    def step(self) -> None:
        """A whole training step, augmentation included."""
        self.losses = self.model.train_step(self.data, self.optim_wrapper)


class PlainResNet:
    """The config's backbone trained on full-size crops: what the hardware can do."""

    def __init__(self, cfg: Config, device: torch.device, batch: int) -> None:
        whole = build_model(cfg)
        px = whole.layout.image_px
        self.mixed = cfg.optim_wrapper.type == "AmpOptimWrapper"
        classifier = nn.Linear(cfg.model.neck.in_channels, _NUM_CLASSES)
        self.model = nn.Sequential(whole.backbone, _Pool(), classifier).to(device)
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.forward = (
            torch.compile(self.model, dynamic=False) if whole.compile_backbone else self.model
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        crops = torch.randn(batch, 3, px, px, device=device)
        self.crops = crops.contiguous(memory_format=torch.channels_last)
        self.labels = torch.randint(_NUM_CLASSES, (batch,), device=device)

    def step(self) -> None:
        """Forward, backward, update."""
        with torch.autocast(self.crops.device.type, torch.bfloat16, enabled=self.mixed):
            loss = F.cross_entropy(self.forward(self.crops), self.labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


class _Pool(nn.Module):
    forward = staticmethod(pool)


def augmentation_share(ours: Any, repeats: int) -> float:
    """G6: the preprocessor's share of the device's time, inside of running steps."""
    marks: list[Any] = []
    preprocessor = ours.model.data_preprocessor
    hooks = [
        preprocessor.register_forward_pre_hook(lambda *_: marks.append(mark(ours.device))),
        preprocessor.register_forward_hook(lambda *_: marks.append(mark(ours.device))),
    ]
    try:
        start = mark(ours.device)
        for _ in range(repeats):
            ours.step()
        whole = seconds_between(start, mark(ours.device))
    finally:
        for hook in hooks:
            hook.remove()
    parts = zip(marks[::2], marks[1::2], strict=True)
    return sum(seconds_between(begin, end) for begin, end in parts) / whole


class WatchHook(Hook):
    """Guards and times the steps of an epoch; runs after all other hooks.

    After ``warmup`` steps come those in which the host must not wait for the device, none of them
    logged, then those in which most batches are used up that the loader had made, then those that
    are timed. ``data`` is a synthetic batch on the device, timed after the epoch.
    """

    priority = "LOWEST"
    warmup = 5
    to_guard = 10
    synthetic = 10

    def __init__(
        self, device: torch.device, data: Any, batch: int, *, drained: int, timed: int
    ) -> None:
        self.device = device
        self.data = data
        self.batch = batch
        self.timed = timed
        self.num_steps = self.warmup + self.to_guard + drained + timed
        self.guarded = 0
        self.jpeg_rate = float("nan")
        self.synthetic_rate = float("nan")
        self._start: Any = None

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None
    ) -> None:
        """Change between the kinds of steps."""
        done = batch_idx + 1
        last = self.warmup + self.to_guard
        if self.warmup <= done <= last:
            self.guarded = done - self.warmup
            if done in (self.warmup, last):
                self.forbid_waiting(done == self.warmup)
        if done == self.num_steps - self.timed:
            self._start = mark(self.device)
        if done == self.num_steps:
            seconds = seconds_between(self._start, mark(self.device))
            self.jpeg_rate = self.timed * self.batch / seconds

    def after_train(self, runner: Runner) -> None:
        """Time synthetic steps."""

        def step() -> None:
            runner.model.train_step(self.data, runner.optim_wrapper)

        seconds_per_call(self.device, step, self.warmup)
        seconds = seconds_per_call(self.device, step, self.synthetic)
        self.synthetic_rate = self.batch / seconds

    def forbid_waiting(self, forbidden: bool) -> None:
        """Make every wait of the host for the device an error, or allow them again."""
        if self.device.type == "cuda":
            torch.cuda.set_sync_debug_mode("error" if forbidden else "default")


def train_from_jpeg(cfg: Config, work_dir: Path, watch: WatchHook) -> str:
    """Train one epoch with the shipped hooks; return where the host waited in a guarded step."""
    cfg = Config(cfg.to_dict())
    cfg.work_dir = str(work_dir)
    cfg.experiment_name = work_dir.name  # the logger of another run of this process is not reused
    cfg.train_cfg.max_epochs = 1

    # The state of most epochs: nothing is frozen, and the queues are full before the guard begins.
    levels = ViewLayout.build(cfg.model.layout).levels
    cfg.model.head.update(
        freeze_epochs=0,
        queue_start_epoch=0,
        queue_length=2 * watch.batch,
        patch_queue_length=[2 * watch.batch * level.num_patches for level in levels],
    )
    # Nothing is kept, and the end of the epoch is not timed.
    cfg.default_hooks.checkpoint.update(interval=-1, save_last=False)

    runner = ConsoleRunner.from_cfg(cfg)
    runner.register_hook(watch)
    try:
        runner.train()
    except RuntimeError as error:
        if "synchroniz" not in str(error):
            raise
        ours = [
            f"{'/'.join(Path(frame.filename).parts[-3:])}:{frame.lineno}"
            for frame in traceback.extract_tb(error.__traceback__)
            if {"mmssprl", "mmengine", "mmpretrain"} & {*Path(frame.filename).parts}
        ]
        return f"{str(error).splitlines()[0]} ({ours[-1]})"
    finally:
        watch.forbid_waiting(False)
        end_workers(runner)
    return ""
