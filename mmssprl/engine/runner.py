"""mmengine's runner with a console for people and safe checkpoints, on CPUs too."""

import copy
import logging
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.dist import master_only
from mmengine.hooks import CheckpointHook
from mmengine.logging import MMLogger, print_log
from mmengine.model import MMDistributedDataParallel, revert_sync_batchnorm
from mmengine.registry import MODEL_WRAPPERS
from mmengine.runner import Runner
from torch import nn

from ..console.quiet import errors_alone, keep_off_console
from ..errors import UserValueError
from ..registry import HOOKS, class_of
from ..saving.checkpoint_hooks import SafeCheckpointHook
from ..system.outputs import FULL, write_whole


class ConsoleRunner(Runner):
    """mmengine's Runner whose dumps of environment, config and hooks go to the log file alone.

    Where a config has mmengine's CheckpointHook, or none, it gets ``SafeCheckpointHook``, so that
    transfer trainings have it too.
    """

    def build_logger(self, *args: Any, **kwargs: Any) -> MMLogger:
        """Build the logger of the run, which keeps notices off the console."""
        logger = super().build_logger(*args, **kwargs)
        keep_off_console(logger, tables="finetuning" not in self.cfg)  # it has a table of its own
        for handler in logger.handlers:
            if isinstance(handler, logging.FileHandler):
                handler.handleError = partial(_end_if_full, handler)  # type: ignore[method-assign]
        return logger

    def build_optim_wrapper(self, *args: Any, **kwargs: Any) -> Any:
        """Build it, and tell errors alone: mmengine has three lines for each parameter's rate."""
        with errors_alone(self.logger):
            return super().build_optim_wrapper(*args, **kwargs)

    def set_randomness(self, *args: Any, deterministic: bool = False, **kwargs: Any) -> None:
        """Seed everything, and if bits are to be equal, let cuBLAS know before it starts.

        Else PyTorch refuses every matrix product on a GPU.
        """
        if deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        super().set_randomness(*args, deterministic=deterministic, **kwargs)

    def register_default_hooks(self, hooks: Mapping[str, Any] | None = None) -> None:
        """Register them, with checkpoints that are safe."""
        spec = (hooks or {}).get("checkpoint", {"type": CheckpointHook, "interval": 1})
        if isinstance(spec, Mapping) and class_of(spec.get("type"), HOOKS) is CheckpointHook:
            spec = {**spec, "type": SafeCheckpointHook}
        super().register_default_hooks({**(hooks or {}), "checkpoint": spec})

    def save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """Save, and tell errors alone."""
        with errors_alone(self.logger):
            super().save_checkpoint(*args, **kwargs)

    @master_only
    def dump_config(self) -> None:
        """Write the config into the work dir, whole: a resumed run may read it there."""
        name = Path(self.cfg.filename).name if self.cfg.filename else f"{self.timestamp}.py"
        cfg = copy.deepcopy(self.cfg)
        if cfg.get("resume"):
            cfg.load_from = None  # the newest of today
        write_whole(Path(self.work_dir) / name, cfg.dump())


def end_workers(runner: Runner) -> None:
    """End the persistent workers of a runner's loaders now.

    The garbage collector would close the queues first through which they are told to end, and then
    wait 5 s for each of them; so would, on a GPU, the end of this process.
    """
    for loop in (runner._train_loop, runner._val_loop, runner._test_loop):
        loader: Any = getattr(loop, "dataloader", None)
        loader = getattr(loader, "loader", loader)  # of one whose steps are timed
        iterator = getattr(loader, "_iterator", None)
        if iterator is not None:
            iterator._shutdown_workers()
            for worker in getattr(iterator, "_workers", ()):
                worker.kill()  # one that hangs hears no SIGTERM: it would be waited for without end
            loader._iterator = None


def _end_if_full(handler: logging.Handler, record: logging.LogRecord) -> None:
    """Let the run end when its log does not fit, where Python would print pages and go on.

    Raises:
        OSError: The one that is being handled.
    """
    error = sys.exc_info()[1]
    if isinstance(error, OSError) and error.errno in FULL:
        error.filename = error.filename or getattr(handler, "baseFilename", None)
        raise error
    logging.Handler.handleError(handler, record)


def use_cpu_processes(cfg: Config) -> None:
    """Let a config run in several processes on the CPU, which not every launcher can start."""
    if cfg.launcher not in ("pytorch", "slurm"):
        raise UserValueError(
            "launcher must be 'pytorch' or 'slurm' for processes on the CPU, but got "
            f"{cfg.launcher!r} and no accelerator; use tools/dist_train.sh or tools/slurm_train.sh."
        )
    plain = "MMDistributedDataParallel"
    wrapper = cfg.get("model_wrapper_cfg") or {
        "broadcast_buffers": False,
        "find_unused_parameters": cfg.get("find_unused_parameters", False),
    }
    if class_of(wrapper.get("type", plain), MODEL_WRAPPERS) is MMDistributedDataParallel:
        cfg.model_wrapper_cfg = {**wrapper, "type": "CPUDistributedDataParallel"}


@MODEL_WRAPPERS.register_module()
class CPUDistributedDataParallel(MMDistributedDataParallel):
    """mmengine's wrapper for models on the CPU.

    mmengine hands every wrapper ``device_ids=[LOCAL_RANK]``, which torch refuses for CPU models,
    and torch's SyncBatchNorm has no CPU kernel: such layers become BatchNorm, as mmengine does in
    a single process. Each process then normalises with the statistics of its own share.
    """

    def __init__(self, module: nn.Module, device_ids: Any = None, **kwargs: Any) -> None:
        if any(isinstance(layer, nn.SyncBatchNorm) for layer in module.modules()):
            print_log(
                "SyncBatchNorm has no CPU kernel: its layers are BatchNorm in this run.",
                logger="current",
            )
        super().__init__(module=revert_sync_batchnorm(module), device_ids=None, **kwargs)
