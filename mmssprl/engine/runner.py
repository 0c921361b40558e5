"""mmengine's runner with a console for people, and checkpoints that are safe."""

import logging
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mmengine.dist import master_only
from mmengine.hooks import CheckpointHook
from mmengine.logging import MMLogger
from mmengine.runner import Runner
from torch import nn

from ..console.quiet import keep_off_console
from ..registry import HOOKS, class_of
from ..saving.checkpoint_checks import first_checkpoint
from ..saving.safe_checkpoint_hook import SafeCheckpointHook
from ..system.disk_space import FULL
from ..system.outputs import write_whole


class ConsoleRunner(Runner):
    """mmengine's Runner whose dumps of environment, config and hooks go to the log file alone.

    Where a config has mmengine's CheckpointHook, or none, it gets ``SafeCheckpointHook``, so that
    transfer trainings have it too.
    """

    _load_from: str | None

    def build_logger(self, *args: Any, **kwargs: Any) -> MMLogger:
        """Build the logger of the run, which keeps notices off the console."""
        logger = super().build_logger(*args, **kwargs)
        keep_off_console(logger)
        for handler in logger.handlers:
            if isinstance(handler, logging.FileHandler):
                handler.handleError = partial(_end_if_full, handler)  # type: ignore[method-assign]
        return logger

    def set_randomness(self, *args: Any, deterministic: bool = False, **kwargs: Any) -> None:
        """Seed everything, and if bits are to be equal, let cuBLAS know before it starts.

        Else PyTorch refuses every matrix product on a GPU.
        """
        if deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        super().set_randomness(*args, deterministic=deterministic, **kwargs)

    def train(self) -> nn.Module:
        """Train, and end the processes that read the images, however the training ends."""
        try:
            return super().train()
        finally:
            for loop in (self._train_loop, self._val_loop):
                _end_workers(getattr(loop, "dataloader", None))

    def register_default_hooks(self, hooks: Mapping[str, Any] | None = None) -> None:
        """Register them, with checkpoints that are safe."""
        spec = (hooks or {}).get("checkpoint", {"type": CheckpointHook, "interval": 1})
        if isinstance(spec, Mapping) and class_of(spec.get("type"), HOOKS) is CheckpointHook:
            spec = {**spec, "type": SafeCheckpointHook}
        super().register_default_hooks({**(hooks or {}), "checkpoint": spec})

    @master_only
    def dump_config(self) -> None:
        """Write the config into the work dir, whole: a run that goes on may read it there."""
        name = Path(self.cfg.filename).name if self.cfg.filename else f"{self.timestamp}.py"
        write_whole(Path(self.work_dir) / name, self.cfg.dump())

    def load_or_resume(self) -> None:
        """Load what the config names; resume the newest checkpoint that is whole."""
        if self._resume and self._load_from is None:
            self._load_from = first_checkpoint(self.cfg)
            if self._load_from is None:
                self.logger.info(f"{self.work_dir} has no checkpoint yet: the run begins anew.")
                self._has_loaded = True
        super().load_or_resume()


def _end_workers(loader: Any) -> None:
    """End a loader's persistent workers now.

    The garbage collector would close the queues first through which they are told to end, and then
    wait 5 s for each of them; so would, on a GPU, the end of this process.
    """
    loader = getattr(loader, "loader", loader)  # of a Prefetcher
    iterator = getattr(loader, "_iterator", None)
    if iterator is not None:
        iterator._shutdown_workers()
        for worker in getattr(iterator, "_workers", ()):
            worker.kill()  # one that hangs hears no SIGTERM, and would be waited for without end
        loader._iterator = None


def _end_if_full(handler: logging.Handler, record: logging.LogRecord) -> None:
    """Let the run end when its log does not fit, where Python would print pages and go on.

    Raises:
        OSError: The one that is being handled.
    """
    error = sys.exc_info()[1]
    if isinstance(error, OSError) and error.errno in FULL:
        raise error
    logging.Handler.handleError(handler, record)
