"""mmengine's runner with a readable console and safe checkpoints, on CPUs, too."""

import copy
import io
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.dist import is_main_process, master_only
from mmengine.hooks import CheckpointHook, Hook
from mmengine.logging import MMLogger, print_log
from mmengine.model import MMDistributedDataParallel, revert_sync_batchnorm
from mmengine.registry import MODEL_WRAPPERS
from mmengine.runner import Runner
from torch import nn

from ..console.log_line import LogLine
from ..console.quiet import errors_alone, keep_off_console
from ..errors import UserValueError
from ..models import is_pretraining
from ..registry import HOOKS, class_of
from ..saving.checkpoint_hooks import PretrainCheckpointHook, SafeCheckpointHook
from ..saving.run_files import files_of_run
from ..saving.run_record import record_run
from ..system.outputs import FULL, write_whole


class ConsoleRunner(Runner):
    """mmengine's Runner, which logs environment, config and hooks to the file only."""

    def build_logger(self, *args: Any, **kwargs: Any) -> MMLogger:
        """Build a logger that keeps notices off the console."""
        logger = super().build_logger(*args, **kwargs)
        keep_off_console(logger, tables="finetuning" not in self.cfg)  # fine-tuning prints its own
        for handler in logger.handlers:
            if isinstance(handler, logging.FileHandler):
                handler.handleError = partial(_end_if_full, handler)  # type: ignore[method-assign]
        return logger

    def build_optim_wrapper(self, *args: Any, **kwargs: Any) -> Any:
        """Build it without mmengine's three lines per parameter."""
        with errors_alone(self.logger):
            return super().build_optim_wrapper(*args, **kwargs)

    def set_randomness(self, *args: Any, deterministic: bool = False, **kwargs: Any) -> None:
        """Seed everything."""
        if deterministic:  # before cuBLAS starts, else PyTorch refuses matrix products on a GPU
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        super().set_randomness(*args, deterministic=deterministic, **kwargs)

    def register_default_hooks(self, hooks: Mapping[str, Any] | None = None) -> None:
        """Register the default hooks, with our checkpoint hooks for mmengine's CheckpointHook."""
        spec = (hooks or {}).get("checkpoint", {"type": CheckpointHook, "interval": 1})
        if isinstance(spec, Mapping) and class_of(spec.get("type"), HOOKS) is CheckpointHook:
            kind = PretrainCheckpointHook if is_pretraining(self.cfg) else SafeCheckpointHook
            spec = {**spec, "type": kind}
        super().register_default_hooks({**(hooks or {}), "checkpoint": spec})

    def save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """Save, and log only errors."""
        with errors_alone(self.logger):
            super().save_checkpoint(*args, **kwargs)

    def load_checkpoint(self, *args: Any, **kwargs: Any) -> Any:
        """Load weights, and log what mmengine prints except the line about the backend."""
        with redirect_stdout(io.StringIO()) as printed:
            found = super().load_checkpoint(*args, **kwargs)
        lines = printed.getvalue().strip().splitlines()
        kept = [line for line in lines if not line.startswith("Loads checkpoint by ")]
        if any(kept):
            self.logger.warning("\n".join(kept))
        return found

    def resume(self, filename: str, *args: Any, **kwargs: Any) -> None:
        """Resume, and say after which epoch."""
        super().resume(filename, *args, **kwargs)
        done = f"epoch {self.epoch}, step {self.iter:,} of {self.max_iters:,}"
        line = f"resuming after {done}, from {filename}"
        self.logger.info(LogLine(line, line))

    def dump_config(self) -> None:
        """Write nothing: mmengine calls it before all checks, and in tests of a run, too."""

    @master_only
    def write_config(self) -> None:
        """Write the config into the work dir atomically: a resumed run reads it there.

        A config in JSON or YAML is written as Python, too.
        """
        cfg = copy.deepcopy(self.cfg)
        if cfg.get("resume"):
            cfg.load_from = None  # find the newest checkpoint again next time
        name = Path(cfg.filename or self.timestamp).stem
        write_whole(Path(self.work_dir) / f"{name}.py", cfg.pretty_text)


class BeginHook(Hook):
    """Write the files of a run when it begins, so that a refused one leaves those in its place."""

    priority = "BELOW_NORMAL"  # after the hooks that check, and before those that write

    def __init__(self, *, overwrite: bool, keeps_record: bool) -> None:
        self.overwrite = overwrite
        self.keeps_record = keeps_record

    def before_train(self, runner: Runner) -> None:
        """Delete the checkpoints of another run, and write config and record."""
        for hook in runner.hooks:
            if isinstance(hook, SafeCheckpointHook):
                hook.check(runner)
        if not is_main_process():
            return
        if self.overwrite:
            for path in files_of_run(runner.cfg):
                path.unlink()
        if isinstance(runner, ConsoleRunner):
            runner.write_config()
        if self.keeps_record:
            record_run(runner.cfg, runner.train_dataloader.dataset, runner.timestamp)


def end_workers(runner: Runner) -> None:
    """End the persistent workers of a runner's loaders: the garbage collector may take 5 s each."""
    for loop in (runner._train_loop, runner._val_loop, runner._test_loop):
        loader: Any = getattr(loop, "dataloader", None)
        iterator = getattr(loader, "_iterator", None)
        if iterator is not None:
            iterator._shutdown_workers()
            for worker in getattr(iterator, "_workers", ()):
                worker.kill()  # a worker that hangs ignores SIGTERM
            loader._iterator = None


def _end_if_full(handler: logging.Handler, record: logging.LogRecord) -> None:
    """Raise the OSError of a full disk, which logging would print and ignore."""
    error = sys.exc_info()[1]
    if isinstance(error, OSError) and error.errno in FULL:
        error.filename = error.filename or getattr(handler, "baseFilename", None)
        raise error
    logging.Handler.handleError(handler, record)


def use_cpu_processes(cfg: Config) -> None:
    """Set up a config for several processes on the CPU; not every launcher can start them."""
    if cfg.launcher not in ("pytorch", "slurm"):
        raise UserValueError(
            "--launcher must be 'pytorch' or 'slurm' without an accelerator, but got "
            f"{cfg.launcher!r}; use tools/dist_train.sh or tools/slurm_train.sh."
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
    """MMDistributedDataParallel for models on the CPU.

    It ignores ``device_ids``, which mmengine passes and torch refuses there. SyncBatchNorm becomes
    BatchNorm, as in mmengine's single process: each process has its own statistics.
    """

    def __init__(self, module: nn.Module, device_ids: Any = None, **kwargs: Any) -> None:
        if any(isinstance(layer, nn.SyncBatchNorm) for layer in module.modules()):
            print_log(
                "SyncBatchNorm has no CPU kernel: its layers are BatchNorm in this run.",
                logger="current",
            )
        super().__init__(module=revert_sync_batchnorm(module), device_ids=None, **kwargs)
