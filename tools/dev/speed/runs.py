"""Exact counts of real training steps: host syncs and collectives. Nothing is timed.

Dispatch modes see every operator, also of hooks and backward: on a CPU the backward pass runs in
the thread that asks for it.
"""

import json
import os
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
from mmengine.config import Config
from mmengine.runner import Runner
from PIL import Image
from torch import Tensor, multiprocessing
from torch import distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mmssprl.config.layouts import hand_on_layout
from mmssprl.engine.runner import CPUDistributedDataParallel
from mmssprl.functional import _device, sinkhorn
from mmssprl.models import pyramid_preprocessor

from .models import device_path, shipped_config


class OperatorCounter(TorchDispatchMode, ABC):
    """Hands every operator to ``see``."""

    def __init__(self) -> None:
        super().__init__()
        self._found: list[Any] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence = (), kwargs: dict | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.see(func, func.overloadpacket.__name__, args, result)
        return result

    @abstractmethod
    def see(self, func: Any, name: str, args: Sequence, result: Any) -> None:
        """Look at an operator that has just run."""

    def take(self) -> list[Any]:
        """Return what was found since the last call."""
        found = self._found
        self._found = []
        return found

    @contextmanager
    def leaving_out_the_host(self) -> Iterator[None]:
        """Leave out what draws and plans the augmentation, on tensors of the CPU by intent."""
        with ExitStack() as stack:
            for module, name in ((pyramid_preprocessor, "draw_photometric"), (_device, "plan")):
                unseen = partial(self._unseen, getattr(module, name))
                stack.enter_context(mock.patch.object(module, name, unseen))
            yield

    def _unseen(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        before = self._found
        self._found = []
        result = function(*args, **kwargs)
        self._found = before
        return result


class SyncCounter(OperatorCounter):
    """Lists what makes the host wait for a device, on the CPU too.

    Not seen on the CPU: ``to(device)`` from a device to the host, which is no copy here.
    """

    def see(self, func: Any, name: str, args: Sequence, result: Any) -> None:
        """List an operator that reads values."""
        if name in _READS or (name in _INDEXES and _has_mask(args[1])):
            self._found.append(name)

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Also see the methods of tensors that read past the dispatcher."""
        with ExitStack() as stack:
            for name in ("tolist", "numpy", "cpu"):
                stack.enter_context(self._counted(name))
            yield

    def _counted(self, name: str) -> Any:
        method = getattr(Tensor, name)

        def called(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            self._found.append(name)
            return method(tensor, *args, **kwargs)

        return mock.patch.object(Tensor, name, called)


_READS = {
    "_linalg_check_errors",
    "_local_scalar_dense",
    "_unique",
    "_unique2",
    "equal",
    "is_nonzero",
    "masked_select",
    "nonzero",
    "unique_consecutive",
    "unique_dim",
    "unique_dim_consecutive",
}
_INDEXES = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}


def _has_mask(indices: Sequence[Tensor | None]) -> bool:
    return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices)


class Collective(NamedTuple):
    """One collective: its operator, what this rank sends, and whether it is the assignment's."""

    name: str
    num_bytes: int
    is_sinkhorn: bool


class CollectiveCounter(OperatorCounter):
    """Lists the collectives, DDP's from within the backward pass among them."""

    is_sinkhorn = False

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Take note of the assignment: one function joins its ranks."""
        module = sys.modules[sinkhorn.__module__]
        over_ranks = module._over_ranks  # type: ignore[attr-defined]

        def noted(log_sums: Sequence[Tensor]) -> Sequence[Tensor]:
            self.is_sinkhorn = True
            joined = over_ranks(log_sums)
            self.is_sinkhorn = False
            return joined

        with mock.patch.object(module, "_over_ranks", noted):
            yield

    def see(self, func: Any, name: str, args: Sequence, result: Any) -> None:
        """List an operator that sends."""
        if func.namespace in ("c10d", "_c10d_functional"):
            # An all-gather's first argument is its output.
            sent = args[1] if "gather" in name and func.namespace == "c10d" else args[0]
            tensors = [leaf for leaf in tree_leaves(sent) if isinstance(leaf, Tensor)]
            num_bytes = sum(tensor.nbytes for tensor in tensors)
            self._found.append(Collective(name, num_bytes, self.is_sinkhorn))


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


def run_steps(cfg: Config, counter: OperatorCounter, patch: AbstractContextManager) -> list[Step]:
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
    steps = run_steps(cfg, counter, counter.patched())
    if rank == 0:
        last = [step.found for step in steps if not step.may_read][-1]
        Path(folder, "collectives.json").write_text(json.dumps(last))
    dist.barrier()
    dist.destroy_process_group()
