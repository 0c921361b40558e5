"""Memory and checkpoints of a long training: they must not grow with its steps.

Each process is looked at by itself. Memory is what it holds for itself and its share of what it
shares with others (Pss of anonymous and shared memory): a sum over the processes counts no page
twice, and pages of files, which come and go with the machine's other work, are left out.
"""

import gc
import tempfile
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
from PIL import Image
from torch import Tensor, nn

from mmssprl.engine.launch import run
from mmssprl.registry import DATASETS as OUR_DATASETS  # noqa: F401  (the registries' locations)
from mmssprl.system.processes import call_in_process

from .base import Log, Outcome

_STEPS_PER_EPOCH = 50
_LOSSES = 12  # scalars of a step, about as many as SS-PRL's
_SETTLED = 5_000  # steps after which the histories are full and the allocator knows its sizes
MOST_KIB = 64.0  # slope that is called flat, in KiB per 1,000 steps: 6 MiB after 100,000

_LAYOUT = {"image_px": 16, "levels": [{"grid": 2, "resize_px": 32, "patch_px": 16}]}

CONFIG = {
    "default_scope": "mmssprl",
    "custom_imports": {"imports": ["tools.dev.faults.memory"]},
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
    """One layer, and as many losses as a large model has; of images it takes eight numbers each."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, _LOSSES)

    def forward(self, inputs: Tensor | list[Tensor], mode: str = "tensor") -> dict[str, Tensor]:
        """Return the losses."""
        if isinstance(inputs, list):
            inputs = inputs[0].flatten(1)[:, :8] / 255
        losses = self.layer(inputs).square().mean(0)
        return {f"loss_{i}": loss for i, loss in enumerate(losses)}


class Watch(Hook):
    """Notes MiB by step and process, and KiB of the newest checkpoint by epoch."""

    priority = "LOWEST"

    def __init__(self) -> None:
        self.memory: dict[str, list[tuple[int, float]]] = {}
        self.sizes: dict[int, float] = {}
        self._process = psutil.Process()

    def after_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Note the memory, without garbage that Python would collect at some time."""
        if (runner.iter + 1) % 1000 == 0:
            gc.collect()
            workers = sorted(worker.pid for worker in self._process.children())
            for number, pid in enumerate([self._process.pid, *workers]):
                name = f"worker {number}" if number else "main process"
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                own = [line for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:"))]
                mib = sum(int(line.split()[1]) for line in own) / 1024
                self.memory.setdefault(name, []).append((runner.iter + 1, mib))

    def after_train_epoch(self, runner: Runner) -> None:
        """Note the size of the checkpoint."""
        path = Path(runner.work_dir) / f"epoch_{runner.epoch + 1}.pth"
        if path.is_file():
            self.sizes[runner.epoch + 1] = path.stat().st_size / 1024


def memory(log: Log, steps: int = 20_000, num_workers: int = 0) -> Outcome:
    """Train on vectors, or with workers on images, and fit a line through the memory."""
    noted, sizes = call_in_process(_train, steps, num_workers)
    slopes, told = [], []
    for name, points in noted.items():
        settled = np.array([point for point in points if point[0] > _SETTLED])
        slopes.append(np.polyfit(settled[:, 0], settled[:, 1], 1)[0] * 1000 * 1024)
        told.append(f"{name} {slopes[-1]:+.1f}, {settled[0, 1]:.0f} to {settled[-1, 1]:.0f} MiB")
    full = [size for epoch, size in sizes.items() if epoch * _STEPS_PER_EPOCH > _SETTLED]
    remark = (
        f"KiB per 1,000 steps by a line through steps {_SETTLED:,} to {steps:,}: "
        f"{'; '.join(told)}; checkpoints of {min(full):.0f} to {max(full):.0f} KiB"
    )
    log(f"memory: {remark}")
    # A pickled array is text: it takes some bytes more or less with its values.
    is_flat = len(slopes) == 1 + num_workers and max(slopes) < MOST_KIB
    survived = int(is_flat and max(full) < 1.1 * min(full))
    workers = f", {num_workers} workers" if num_workers else ""
    return Outcome(f"{steps:,} steps{workers}", 1, survived, "0", remark)


def _train(steps: int, num_workers: int) -> tuple[dict[str, Any], dict[int, float]]:
    watch = Watch()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        cfg = Config(CONFIG)
        if num_workers:
            pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
            for number in range(2 * _STEPS_PER_EPOCH):
                Image.fromarray(pixels).save(f"{folder}/{number}.jpg")
            crop = {"type": "PyramidCrop", "layout": _LAYOUT}
            images = {"type": "UnlabeledImages", "data_root": folder, "pipeline": [crop]}
            collate = {"type": "mmssprl.stack_views"}
            loader = {"num_workers": num_workers, "persistent_workers": True}
            cfg.train_dataloader.update(loader, dataset=images, collate_fn=collate)
        cfg.work_dir = str(Path(folder, "run"))
        cfg.train_cfg = {"by_epoch": True, "max_epochs": steps // _STEPS_PER_EPOCH}
        run(cfg, "train", hooks=[watch], keep_record=False)
    return watch.memory, watch.sizes
