"""Checkpoints that hold the state of every rank, and the backbone's weights at the end."""

from pathlib import Path

import torch
from mmengine.dist import is_main_process
from mmengine.hooks import CheckpointHook
from mmengine.runner import Runner
from mmengine.runner.checkpoint import weights_to_cpu

from ...outputs import whole_file
from ...registry import HOOKS
from ..unwrap import unwrap


@HOOKS.register_module()
class PretrainCheckpointHook(CheckpointHook):
    """mmengine's CheckpointHook, with two additions.

    Rank 0 writes the checkpoint, and a model may keep state per rank, such as queues: it is told
    before each save, so that one ordinary checkpoint resumes all ranks. After the last epoch the
    backbone is written to ``<work_dir>/<config name>_backbone.pth``, a plain state dict with
    torchvision's and mmpretrain's names.
    """

    def _save_checkpoint(self, runner: Runner) -> None:
        # mmengine calls it on every rank, by epoch or by iteration.
        model = unwrap(runner.model)
        model.before_checkpoint()
        super()._save_checkpoint(runner)
        model.after_checkpoint()

    def after_train(self, runner: Runner) -> None:
        """Write the backbone's weights."""
        super().after_train(runner)
        if not is_main_process():
            return
        name = Path(runner.cfg.filename or "pretraining").stem
        path = Path(runner.work_dir) / f"{name}_backbone.pth"
        weights = weights_to_cpu(unwrap(runner.model).backbone.state_dict())
        # Training runs channels-last; readers expect torch's default layout.
        with whole_file(path, "wb") as file:
            torch.save({name: value.contiguous() for name, value in weights.items()}, file)
        runner.logger.info(f"Backbone weights: {path}")
