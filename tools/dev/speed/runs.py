"""Exact counts of real training steps: host syncs and collectives. Nothing is timed."""

import json
import os
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from mmengine.config import Config
from mmengine.runner import Runner
from PIL import Image
from torch import distributed as dist
from torch import multiprocessing

from mmssprl.config.pretrain_checks import hand_on_layout
from mmssprl.engine.runner import CPUDistributedDataParallel
from mmssprl.functional.phases import timed_by

from .counters import Collective, CollectiveCounter, PhaseCounter, SyncCounter
from .models import device_path, shipped_config

NUM_RANKS = 2
_LOG_INTERVAL = 3  # of the 5 steps of an epoch, the third writes a log line
_NUM_IMAGES = 10
_SMALL = {
    "image_px": 48,
    "small_px": 32,
    "levels": [
        {"grid": 2, "resize_px": 80, "patch_px": 40},
        {"grid": 3, "resize_px": 96, "patch_px": 32},
    ],
}
"""Groups and slots as shipped, smaller crops: no count depends on the pixels."""
# With fewer than 8 channels, torch 2.11's oneDNN writes past the end of the weight gradient of a
# strided 1x1 convolution in channels_last.
_SMALL_BACKBONE = {"depth": 18, "stem_channels": 8, "base_channels": 8}


class Step(NamedTuple):
    """One step of a run; the first and those that write a log line may wait for the device."""

    epoch: int  # counted from 0
    number: int  # in its epoch, from 0
    may_read: bool
    found: list[Any]  # by the counter


def run_config(num_crops: int = 28, **changes: Any) -> Config:
    """Return a shipped config made small, with changes by key, ``__`` in place of dots."""
    cfg = shipped_config(num_crops)
    cfg.merge_from_dict(
        {
            "train_dataloader.batch_size": 2,
            "train_dataloader.num_workers": 0,
            "train_dataloader.persistent_workers": False,
            "train_dataloader.pin_memory": False,
            "default_hooks.logger.interval": _LOG_INTERVAL,
            "train_cfg.max_epochs": 1,
            "model.backbone": _SMALL_BACKBONE,
            "model.neck.in_channels": 64,
            **{name.replace("__", "."): value for name, value in changes.items()},
        }
    )
    cfg.model.layout.update(_SMALL)
    hand_on_layout(cfg)
    return cfg


def syncs_per_step(cfg: Config) -> list[Step]:
    """List what makes the host wait in every step of a run, see ``run_steps``."""
    counter = SyncCounter()
    return run_steps(cfg, counter, counter.patched())


def run_steps(cfg: Config, counter: PhaseCounter, patch: AbstractContextManager) -> list[Step]:
    """Train with mmengine's runner and all hooks, and count in each ``run_iter`` of the loop."""
    steps: list[Step] = []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(_NUM_IMAGES):
            pixels = np.random.default_rng(i).integers(256, size=(60, 80, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(Path(folder, f"{i:02}.png"))
        cfg.train_dataloader.dataset.data_root = folder
        cfg.work_dir = str(Path(folder, "run"))
        cfg.experiment_name = Path(folder).name  # mmengine's logger and message hub bear it
        cfg.log_level = "ERROR"
        cfg.default_hooks.checkpoint.update(interval=-1, save_last=False)
        cfg.env_cfg.mp_cfg.mp_start_method = multiprocessing.get_start_method()
        runner = Runner.from_cfg(cfg)
        loop = runner.train_loop
        run_iter = loop.run_iter

        def counted(index: int, batch: Any) -> None:
            counter.take()
            with counter:
                run_iter(index, batch)
            is_last = index + 1 == len(runner.train_dataloader)
            logs = is_last or (index + 1) % _LOG_INTERVAL == 0
            steps.append(Step(runner.epoch, index, logs or not steps, counter.take()))

        loop.run_iter = counted
        with device_path(), counter.leaving_out_the_host(), patch:
            runner.train()
    return steps


def collectives_per_step(cfg: Config) -> list[Collective]:
    """List the collectives of a step, when DDP has settled its buckets, with two processes."""
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(_rank, (cfg, folder), nprocs=NUM_RANKS)
        return [Collective(*c) for c in json.loads(Path(folder, "collectives.json").read_text())]


def _rank(rank: int, cfg: Config, folder: str) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(NUM_RANKS))
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/init", rank=rank, world_size=NUM_RANKS
    )
    cfg.launcher = "pytorch"
    wrapper = CPUDistributedDataParallel.__name__
    cfg.model_wrapper_cfg = {"type": wrapper, "broadcast_buffers": False}
    counter = CollectiveCounter()
    steps = run_steps(cfg, counter, timed_by(counter))
    if rank == 0:
        last = [step.found for step in steps if not step.may_read][-1]
        Path(folder, "collectives.json").write_text(json.dumps(last))
    dist.barrier()
    dist.destroy_process_group()
