"""Continuing from trained weights without undoing what they know."""

from typing import Any

import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from ..console.log_line import LogLine
from ..console.wording import wrapped
from ..errors import UserValueError
from ..models.momentum_encoder import MomentumEncoder
from ..models.unwrap import unwrap
from ..registry import HOOKS


@HOOKS.register_module()
class ContinuationHook(Hook):
    """Protect a backbone that is trained already: its statistics stay, and heads learn first.

    BatchNorm of the backbone and of its momentum copy is in evaluation mode in the whole training.
    Statistics of few images and of small views are not those of the images that it was trained on.

    At first the heads learn alone. The gradients of heads that know nothing yet would undo the
    backbone's training, as they do in fine-tuning: "Fine-Tuning can Distort Pretrained Features and
    Underperform Out-of-Distribution" (arXiv:2202.10054).

    Args:
        heads_first: Epochs in which the heads learn alone; 0 for none.

    Raises:
        ValueError: A number out of its range.
    """

    def __init__(self, heads_first: int) -> None:
        if heads_first < 0:
            raise UserValueError(f"heads_first must be at least 0, but got {heads_first}.")
        self.heads_first = heads_first

    def before_train(self, runner: Runner) -> None:
        """Find the parts of the backbone."""
        model = unwrap(runner.model)
        self.is_frozen = runner.epoch < self.heads_first
        networks = [model.backbone]
        for part in model.modules():
            if isinstance(part, MomentumEncoder):
                networks += part.copies_of(model.backbone)
        parts = [part for network in networks for part in network.modules()]
        self._norms = [part for part in parts if isinstance(part, _BatchNorm)]

        # Not by requires_grad, which DistributedDataParallel and chunks look at once. A gradient of
        # zero adds nothing to the norm that is clipped, and none at all lets no weight decay.
        def zero(gradient: Tensor) -> Tensor:
            return torch.zeros_like(gradient) if self.is_frozen else gradient

        def leave_out(*_: Any) -> None:
            if self.is_frozen:
                model.backbone.zero_grad()

        for parameter in model.backbone.parameters():
            if parameter.requires_grad:
                parameter.register_hook(zero)
        runner.optim_wrapper.optimizer.register_step_pre_hook(leave_out)

    def before_train_epoch(self, runner: Runner) -> None:
        """Let the backbone learn from its first epoch on."""
        if self.is_frozen and runner.epoch >= self.heads_first:
            self.is_frozen = False
            text = f"after epoch {runner.epoch} the backbone begins to learn"
            runner.logger.info(LogLine(text, wrapped(text)))

    def before_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Keep the statistics; the loop puts all into training mode when an epoch begins."""
        for norm in self._norms:
            norm.eval()
