"""Continuing from trained weights without losing what they have learned."""

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
    """Protect a trained backbone: keep its BatchNorm statistics, and train the heads first.

    BatchNorm of the backbone and of its momentum copy stays in evaluation mode, because small views
    have other statistics. In the first epochs only the heads learn, because gradients of untrained
    heads would distort the backbone (arXiv:2202.10054).

    Args:
        heads_first: Epochs in which only the heads learn, >= 0.

    Raises:
        ValueError: ``heads_first`` is negative.
    """

    def __init__(self, heads_first: int) -> None:
        if heads_first < 0:
            raise UserValueError(f"heads_first must be >= 0, but got {heads_first}.")
        self.heads_first = heads_first

    def before_train(self, runner: Runner) -> None:
        """Find the BatchNorm layers, and hook into the gradients and the optimizer."""
        if self.heads_first >= runner.max_epochs:
            text = (
                f"ContinuationHook trains the heads alone for heads_first={self.heads_first} of "
                f"{runner.max_epochs} epochs, so the backbone learns nothing; lower heads_first."
            )
            runner.logger.warning(LogLine(text, wrapped(f"warning: {text}")))

        model = unwrap(runner.model)
        self.is_frozen = runner.epoch < self.heads_first
        networks = [model.backbone]
        for part in model.modules():
            if isinstance(part, MomentumEncoder):
                networks += part.copies_of(model.backbone)
        self._norms: list[_BatchNorm] = []
        for network in networks:
            self._norms += [part for part in network.modules() if isinstance(part, _BatchNorm)]

        # Not by requires_grad, which DistributedDataParallel reads only once. Zero gradients keep
        # the backbone out of the clipped norm; removing them before the step stops weight decay.
        def zero(gradient: Tensor) -> Tensor:
            return torch.zeros_like(gradient) if self.is_frozen else gradient

        def remove(*_: Any) -> None:
            if self.is_frozen:
                model.backbone.zero_grad()

        for parameter in model.backbone.parameters():
            if parameter.requires_grad:
                parameter.register_hook(zero)
        runner.optim_wrapper.optimizer.register_step_pre_hook(remove)

    def before_train_epoch(self, runner: Runner) -> None:
        """Unfreeze the backbone after ``heads_first`` epochs."""
        if self.is_frozen and runner.epoch >= self.heads_first:
            self.is_frozen = False
            text = f"after epoch {runner.epoch} the backbone begins to learn"
            runner.logger.info(LogLine(text, wrapped(text)))

    def before_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Keep the statistics: the loop sets training mode at each epoch's start."""
        for norm in self._norms:
            norm.eval()
