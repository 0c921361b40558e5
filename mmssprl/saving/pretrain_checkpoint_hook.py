"""Checkpoints that hold the state of every rank, and the backbone's weights at the end."""

from pathlib import Path
from typing import Any

import torch
from mmengine.dist import is_main_process
from mmengine.runner import Runner
from mmengine.runner.checkpoint import weights_to_cpu
from torch import nn

from ..console.log_line import LogLine
from ..models.unwrap import unwrap
from ..registry import HOOKS
from ..system.outputs import whole_file
from .safe_checkpoint_hook import SafeCheckpointHook


@HOOKS.register_module()
class PretrainCheckpointHook(SafeCheckpointHook):
    """SafeCheckpointHook, with two additions.

    Rank 0 writes the checkpoint, and a model may keep state per rank, such as queues: it is told
    before each save, so that one ordinary checkpoint resumes all ranks. After the last epoch the
    backbone is written to ``<work_dir>/<config name>_backbone.pth``, a plain state dict with
    torchvision's and mmpretrain's names.
    """

    def _write(self, runner: Runner, step: int, meta: dict[str, Any]) -> None:
        model = unwrap(runner.model)
        model.before_checkpoint()
        super()._write(runner, step, meta)
        model.after_checkpoint()

    def after_train(self, runner: Runner) -> None:
        """Write the backbone's weights."""
        super().after_train(runner)
        if not is_main_process():
            return
        path = backbone_file(runner)
        save_backbone(unwrap(runner.model).backbone, path)
        runner.logger.info(LogLine(f"Backbone weights: {path}", f"backbone weights: {path}"))


def backbone_file(runner: Runner, mark: str = "") -> Path:
    """Return where a run writes its backbone; ``mark`` tells several of a run apart."""
    name = Path(runner.cfg.filename or "pretraining").stem
    return Path(runner.work_dir) / f"{name}{mark and '_'}{mark}_backbone.pth"


def save_backbone(backbone: nn.Module, path: Path) -> None:
    """Write a backbone's weights as a plain state dict."""
    weights = weights_to_cpu(backbone.state_dict())
    # Training runs channels-last; readers expect torch's default layout.
    with whole_file(path, "wb") as file:
        torch.save({name: value.contiguous() for name, value in weights.items()}, file)
