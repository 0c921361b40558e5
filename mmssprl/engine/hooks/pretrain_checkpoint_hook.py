"""Checkpoints that hold every rank's queues, and the backbone's weights at the end."""

from pathlib import Path
from typing import Any

import torch
from mmengine.dist import master_only
from mmengine.hooks import CheckpointHook
from mmengine.runner import Runner
from mmengine.runner.checkpoint import weights_to_cpu

from ...registry import HOOKS
from ..unwrap import unwrap


@HOOKS.register_module()
class PretrainCheckpointHook(CheckpointHook):
    """mmengine's CheckpointHook, with two additions.

    The queues are kept per rank and rank 0 writes the checkpoint: they are gathered before each
    save, so that one ordinary checkpoint resumes all ranks. After the last epoch the backbone is
    written to ``<work_dir>/<config name>_backbone.pth``, a plain state dict with torchvision's and
    mmpretrain's names.
    """

    def after_train_epoch(self, runner: Runner) -> None:
        """Gather the queues and save where an epoch's end asks for it."""
        if self.by_epoch and (
            self.every_n_epochs(runner, self.interval, self.save_begin)
            or (self.save_last and self.is_last_train_epoch(runner))
        ):
            head = unwrap(runner.model).head
            head.gather_queues()
            super().after_train_epoch(runner)
            head.release_queues()

    def after_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Gather the queues and save where an iteration asks for it."""
        if not self.by_epoch and (
            self.every_n_train_iters(runner, self.interval, self.save_begin)
            or (self.save_last and self.is_last_train_iter(runner))
        ):
            head = unwrap(runner.model).head
            head.gather_queues()
            super().after_train_iter(runner, *args, **kwargs)
            head.release_queues()

    def after_train(self, runner: Runner) -> None:
        """Write the backbone's weights."""
        super().after_train(runner)
        self._save_backbone(runner)

    @master_only
    def _save_backbone(self, runner: Runner) -> None:
        name = Path(runner.cfg.filename or "ssprl").stem
        path = Path(runner.work_dir) / f"{name}_backbone.pth"
        weights = weights_to_cpu(unwrap(runner.model).backbone.state_dict())
        # Training runs channels-last; readers expect torch's default layout.
        torch.save({name: value.contiguous() for name, value in weights.items()}, path)
        runner.logger.info(f"Backbone weights: {path}")
