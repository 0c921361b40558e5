"""Memory and checkpoints of a long training: they must not grow with its steps."""

import gc
import multiprocessing
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.model import BaseModel
from mmengine.registry import DATASETS, MODELS
from mmengine.runner import Runner
from torch import Tensor, nn

from mmssprl.engine.launch import run
from mmssprl.registry import DATASETS as OUR_DATASETS  # noqa: F401  (the registries' locations)

from .outcome import Outcome

_STEPS_PER_EPOCH = 50
_LOSSES = 12
"""Scalars of a step, about as many as SS-PRL's."""
_SETTLED = 5_000
"""Steps after which the histories are full and the allocator knows its sizes."""
MOST_KIB = 64.0
"""Slope that is called flat, in KiB per 1,000 steps: 6 MiB after 100,000."""

CONFIG = {
    "default_scope": "mmssprl",
    "custom_imports": {"imports": ["tools.faults.memory"]},
    "model": {"type": "ManyLosses"},
    "train_dataloader": {
        "batch_size": 2,
        "num_workers": 0,
        "dataset": {"type": "SmallVectors"},
        "sampler": {"type": "DefaultSampler", "shuffle": True},
        "collate_fn": {"type": "default_collate"},
    },
    "optim_wrapper": {"optimizer": {"type": "SGD", "lr": 1e-3}},
    "default_hooks": {
        "runtime_info": {"type": "PretrainRuntimeInfoHook"},
        "logger": {"type": "LoggerHook", "interval": 10},
        "checkpoint": {"type": "CheckpointHook", "interval": 20, "max_keep_ckpts": 1},
    },
    "custom_hooks": [{"type": "MonitorHook"}],
    "log_processor": {"type": "PretrainLogProcessor", "window_size": 10},
    "randomness": {"seed": 0},
    "launcher": "none",
    "log_level": "ERROR",
}


@DATASETS.register_module()
class SmallVectors(torch.utils.data.Dataset):
    """Vectors, each its own target."""

    def __len__(self) -> int:
        return 2 * _STEPS_PER_EPOCH

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"inputs": torch.full((8,), index / 100)}


@MODELS.register_module()
class ManyLosses(BaseModel):
    """One layer, and as many losses as a large model has."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, _LOSSES)

    def forward(self, inputs: Tensor, mode: str = "tensor") -> dict[str, Tensor]:
        """Return the losses."""
        losses = self.layer(inputs).square().mean(0)
        return {f"loss_{i}": loss for i, loss in enumerate(losses)}


class Watch(Hook):
    """Takes note of the memory that this process has, and of the size of its checkpoints.

    Attributes:
        memory: Steps done and MiB, each 1,000 steps.
        sizes: Of the newest checkpoint in KiB, by epoch.
    """

    priority = "LOWEST"

    def __init__(self) -> None:
        self.memory: list[tuple[int, float]] = []
        self.sizes: dict[int, float] = {}
        self._process = psutil.Process()

    def after_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Note the memory, without garbage that Python would collect at some time."""
        if (runner.iter + 1) % 1000 == 0:
            gc.collect()
            info = self._process.memory_info()
            # Without pages of files, which come and go with the machine's other work.
            self.memory.append((runner.iter + 1, (info.rss - info.shared) / 2**20))

    def after_train_epoch(self, runner: Runner) -> None:
        """Note the size of the checkpoint."""
        path = Path(runner.work_dir) / f"epoch_{runner.epoch + 1}.pth"
        if path.is_file():
            self.sizes[runner.epoch + 1] = path.stat().st_size / 1024


def memory(log: Callable[[str], object], steps: int = 20_000) -> Outcome:
    """Train so many steps, and fit a line through the memory after the first 5,000."""
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_train, args=(theirs, steps))
    child.start()
    theirs.close()
    points, sizes = ours.recv()
    child.join()
    settled = np.array([point for point in points if point[0] > _SETTLED])
    slope = np.polyfit(settled[:, 0], settled[:, 1], 1)[0] * 1000 * 1024
    full = [size for epoch, size in sizes.items() if epoch * _STEPS_PER_EPOCH > _SETTLED]
    remark = (
        f"{slope:+.1f} KiB per 1,000 steps by a line through steps {_SETTLED:,} to {steps:,}, "
        f"{settled[0, 1]:.0f} to {settled[-1, 1]:.0f} MiB; checkpoints of {min(full):.0f} to "
        f"{max(full):.0f} KiB"
    )
    log(f"memory: {remark}")
    # A pickled array is text: it takes some bytes more or less with its values.
    survived = int(slope < MOST_KIB and max(full) < 1.1 * min(full))
    return Outcome(f"{steps:,} steps", 1, survived, "0", remark)


def _train(answer: Connection, steps: int) -> None:
    watch = Watch()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        cfg = Config(CONFIG)
        cfg.work_dir = folder
        cfg.train_cfg = {"by_epoch": True, "max_epochs": steps // _STEPS_PER_EPOCH}
        run(cfg, "train", hooks=[watch], keep_record=False)
    answer.send((watch.memory, watch.sizes))
