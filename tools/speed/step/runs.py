"""Exact counts of the steps of a real run: host syncs, collectives. Nothing is timed.

Both are taken by dispatch modes, which see every operator of hooks, forward, backward and
optimizer: on the CPU the backward pass runs in the thread that asks for it.
"""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
from counts import shipped_config
from mmengine.config import Config
from mmengine.runner import Runner
from operator_counts import device_path
from PIL import Image
from torch import Tensor, multiprocessing
from torch import distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mmssprl.engine.launch import CPUDistributedDataParallel
from mmssprl.models import sinkhorn_head

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


class SyncCounter(TorchDispatchMode):
    """Count what makes the host wait for a device, on the CPU too.

    Not seen on the CPU: ``to(device)`` from a device to the host, which is no copy here.
    """

    def __init__(self) -> None:
        super().__init__()
        self._counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence = (), kwargs: dict | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if (
            name in _READS
            or (name in _INDEXES and _has_mask(args[1]))
            or (name in ("_to_copy", "copy_") and _leaves_device(args, result))
        ):
            self._counts[name] += 1
        return result

    def take(self) -> Counter[str]:
        """Return the waits by name since the last call."""
        counts, self._counts = self._counts, Counter()
        return counts

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
            self._counts[name] += 1
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


def _leaves_device(args: Sequence, result: Any) -> bool:
    source = args[-1] if len(args) > 1 and isinstance(args[1], Tensor) else args[0]
    return source.device.type != "cpu" and result.device.type == "cpu"


class Collective(NamedTuple):
    """One collective: its operator, what this rank sends, whether Sinkhorn called it."""

    name: str
    num_bytes: int
    sinkhorn: bool


class CollectiveCounter(TorchDispatchMode):
    """List the collectives, DDP's from within the backward pass among them."""

    def __init__(self) -> None:
        super().__init__()
        self._found: list[Collective] = []
        self._in_sinkhorn = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence = (), kwargs: dict | None = None
    ) -> Any:
        if func.namespace in ("c10d", "_c10d_functional"):
            name = func.overloadpacket.__name__
            # An all-gather's first argument is its output.
            sent = args[1] if "gather" in name and func.namespace == "c10d" else args[0]
            tensors = [leaf for leaf in tree_leaves(sent) if isinstance(leaf, Tensor)]
            num_bytes = sum(tensor.nbytes for tensor in tensors)
            self._found.append(Collective(name, num_bytes, self._in_sinkhorn))
        return func(*args, **(kwargs or {}))

    def take(self) -> list[Collective]:
        """Return the collectives since the last call."""
        found, self._found = self._found, []
        return found

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Also see where Sinkhorn begins and ends."""
        solve = sinkhorn_head.sinkhorn_jointly

        def called(*args: Any, **kwargs: Any) -> Any:
            self._in_sinkhorn = True
            try:
                return solve(*args, **kwargs)
            finally:
                self._in_sinkhorn = False

        with mock.patch.object(sinkhorn_head, "sinkhorn_jointly", called):
            yield


class Step(NamedTuple):
    """One step of a run.

    Attributes:
        epoch: Counted from 0.
        index: In its epoch, from 0.
        may_read: Whether the step may wait for the device: the run's first, which checks the
            batch sizes of the ranks, those that write a log line, and the last of an epoch.
        counted: What the counter found.
    """

    epoch: int
    index: int
    may_read: bool
    counted: Any


def run_config(num_crops: int = 28, **changes: Any) -> Config:
    """Return the shipped config with small crops and backbone, 5 steps of 2 images in one epoch.

    Args:
        num_crops: See ``shipped_config``.
        changes: Values that replace the config's; dots in their names are written as ``__``.
    """
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
    for layout in (cfg.model.layout, cfg.train_dataloader.dataset.pipeline[0].layout):
        layout.update(_SMALL)
    return cfg


def run_steps(cfg: Config, counter: SyncCounter | CollectiveCounter) -> list[Step]:
    """Train with mmengine's runner and all hooks of the config, and count in each step.

    A step is ``run_iter`` of the loop: the hooks before and after it, preprocessor (with the
    GPU's photometric path), forward, backward, optimizer. Getting the batch is no part of it.

    Args:
        cfg: From ``run_config``; its data and work dir are replaced by temporary ones.
        counter: What counts.
    """
    steps: list[Step] = []
    with tempfile.TemporaryDirectory() as folder:
        _write_images(Path(folder, "images"))
        cfg.train_dataloader.dataset.data_root = str(Path(folder, "images"))
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
        with device_path(), counter.patched():
            runner.train()
    return steps


def _write_images(folder: Path) -> None:
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(_NUM_IMAGES):
        pixels = rng.integers(256, size=(60, 80, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i:02}.png")


def collectives_per_step(cfg: Config) -> list[Collective]:
    """List the collectives of a step between log steps, with two gloo processes.

    Of the last such step: DDP has settled its buckets by then.
    """
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
    steps = run_steps(cfg, CollectiveCounter())
    if rank == 0:
        last = [step.counted for step in steps if not step.may_read][-1]
        Path(folder, "collectives.json").write_text(json.dumps(last))
    dist.barrier()
    dist.destroy_process_group()
