"""Build the parts of a training from its config, as mmengine's runner does, but write nothing."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.dist import get_rank, get_world_size, init_dist
from mmengine.model import convert_sync_batchnorm, revert_sync_batchnorm
from mmengine.optim import OptimWrapper, build_optim_wrapper
from mmengine.registry import MODEL_WRAPPERS
from mmengine.runner import Runner
from torch import nn

from ..datasets import UnlabeledImages
from ..engine.launch import Launcher, prepare_train_config
from ..engine.pretrain_checks import is_pretraining
from ..errors import UserFileNotFoundError, UserValueError
from ..models import SSPRL
from ..registry import MODELS
from ..shipped import config_file

CPU_BATCH_SIZE = 2
"""Images a step on a CPU, where an image of the full-size configs takes about 5 s a core."""


@dataclass(frozen=True)
class Parts:
    """What a training consists of.

    Attributes:
        model: As the training loop sees it, in a DDP wrapper if there are several processes.
        core: The model itself.
        optim_wrapper: Its optimizer.
        dataset: The images.
        indices: Images of this process, in random order.
        collate: Makes a batch of a list of samples.
        batch_size: Images per process and step.
    """

    model: Any
    core: SSPRL
    optim_wrapper: OptimWrapper
    dataset: UnlabeledImages
    indices: list[int]
    collate: Callable[[list], Any]
    batch_size: int


def read_config(
    config: str | Path,
    *,
    data: str | Path | None,
    amp: bool,
    compile: bool,
    cfg_options: Mapping[str, Any] | None,
    launcher: Launcher,
) -> Config:
    """Read a pre-training config and apply the command line.

    Args:
        config: Config file.
        data: Replaces ``train_dataloader.dataset.data_root``.
        amp: Use mixed precision, see ``prepare_train_config``.
        compile: Compile backbone and augmentation, likewise.
        cfg_options: Values by dotted key that replace the config's.
        launcher: What started the processes.

    Raises:
        FileNotFoundError: No such config.
        RuntimeError: Something is to be compiled that cannot be compiled here.
        ValueError: No pre-training config, or ``amp`` without an accelerator.
    """
    config = config_file(config)
    _require_pretraining(Config.fromfile(config))
    options = dict(cfg_options or {})
    if data is not None:
        options["train_dataloader.dataset.data_root"] = str(data)
    # Of a work dir only its checkpoints are looked at: here there are none.
    with TemporaryDirectory() as empty:
        return prepare_train_config(
            config,
            work_dir=empty,
            amp=amp,
            compile=compile,
            cfg_options=options,
            launcher=launcher,
        )


def choose_batch_size(cfg: Config, batch_size: int | None) -> int:
    """Return the images per process and step.

    Args:
        cfg: The config.
        batch_size: None takes the config's, or on a CPU ``CPU_BATCH_SIZE``, but no less than
            ``model.num_chunks``.

    Raises:
        ValueError: A batch size < 1.
    """
    if batch_size is not None:
        if batch_size < 1:
            raise UserValueError(f"--batch-size must be >= 1, but got {batch_size}.")
        return batch_size
    chosen = cfg.train_dataloader.batch_size
    if get_device() == "cpu":
        return min(chosen, max(CPU_BATCH_SIZE, cfg.model.get("num_chunks", 1)))
    return chosen


@contextmanager
def process_group(launcher: Launcher) -> Iterator[None]:
    """Join the processes of a launcher, and leave them together."""
    if launcher == "none":
        yield
        return
    if get_device() == "cpu":
        torch.distributed.init_process_group("gloo")
    else:
        init_dist(launcher)
    try:
        yield
        torch.distributed.barrier()
    finally:
        torch.distributed.destroy_process_group()


def build_parts(cfg: Config) -> Parts:
    """Build model, optimizer and data; the weights are random, whatever the config says.

    Raises:
        FileNotFoundError: The folder of images does not exist.
        ValueError: No images, another data set than ``UnlabeledImages``, or fewer images than
            all processes take in one step.
    """
    torch.backends.cudnn.benchmark = cfg.get("env_cfg", {}).get("cudnn_benchmark", False)
    # Loaded in this process, one image after the other.
    loader_cfg = {
        key: value
        for key, value in cfg.train_dataloader.items()
        if key not in ("num_workers", "persistent_workers", "prefetch_factor", "pin_memory")
    }
    try:
        loader = Runner.build_dataloader(loader_cfg, seed=0)
    except FileNotFoundError as error:
        hint = "or give the folder of images by --data."
        raise UserFileNotFoundError(f"{str(error).rstrip('.')}, {hint}") from error
    dataset, batch_size = loader.dataset, loader.batch_size
    if not isinstance(dataset, UnlabeledImages):
        raise UserValueError(
            "train_dataloader.dataset.type must be 'UnlabeledImages' as in all pre-training, but "
            f"got {type(dataset).__name__}; it reads folders, lists and COCO files."
        )
    num_processes = get_world_size()
    if batch_size is None or batch_size * num_processes > len(dataset):
        raise UserValueError(
            f"a step must not take more images than there are, but got {num_processes} "
            f"process(es) x {batch_size} images and {len(dataset)} images in "
            f"{dataset.data_prefix['img_path']}; lower --batch-size or give more images by --data."
        )
    dataset.set_epoch(0, 0)
    core = MODELS.build(cfg.model)
    core.head.set_epoch_length(len(dataset) // (batch_size * num_processes))
    model = _distribute(core.to(get_device()), cfg)
    order = np.random.default_rng(0).permutation(len(dataset))
    return Parts(
        model=model,
        core=core,
        optim_wrapper=build_optim_wrapper(model, cfg.optim_wrapper),
        dataset=dataset,
        indices=order[get_rank() :: num_processes].tolist(),
        collate=loader.collate_fn,
        batch_size=batch_size,
    )


def _require_pretraining(cfg: Config) -> None:
    if not is_pretraining(cfg) or cfg.get("train_dataloader") is None:
        kind = (cfg.get("model") or {}).get("type")
        raise UserValueError(
            "config must be a pre-training config (model.type='SSPRL' and a train_dataloader), but "
            f"{cfg.filename} has model.type={kind!r}; the shipped ones are in configs/ssprl."
        )


def _distribute(model: SSPRL, cfg: Config) -> nn.Module:
    if get_world_size() == 1:
        return revert_sync_batchnorm(model)
    if cfg.get("sync_bn"):
        model = convert_sync_batchnorm(model, cfg.sync_bn)
    wrapper = cfg.get("model_wrapper_cfg") or {
        "broadcast_buffers": False,
        "find_unused_parameters": cfg.get("find_unused_parameters", False),
    }
    return MODEL_WRAPPERS.build(
        {"type": "MMDistributedDataParallel", **wrapper},
        default_args={"module": model, "device_ids": [int(os.environ["LOCAL_RANK"])]},
    )
