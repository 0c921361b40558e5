"""Continuing from trained weights: the heads first, then the whole network."""

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
    """Let the heads of a pre-training learn alone at first, on a backbone that is trained already.

    The gradients of heads that know nothing yet would undo the backbone's training, as they do in
    fine-tuning: "Fine-Tuning can Distort Pretrained Features and Underperform Out-of-Distribution"
    (arXiv:2202.10054). So long the backbone gets no update, and its BatchNorm, that of its momentum
    copy too, is in evaluation mode: no running statistic moves.

    Args:
        heads_first: Epochs in which the heads learn alone; 0 for none.
        bn_momentum: Of the BatchNorms of the backbone and its momentum copy in the whole training:
            the share of a batch in the running statistics, in (0, 1]; None leaves the network's.

    Raises:
        ValueError: A number out of its range.
    """

    def __init__(self, heads_first: int, bn_momentum: float | None = None) -> None:
        if heads_first < 0:
            raise UserValueError(f"heads_first must be at least 0, but got {heads_first}.")
        if bn_momentum is not None and not 0 < bn_momentum <= 1:
            raise UserValueError(f"bn_momentum must be in (0, 1], but got {bn_momentum}.")
        self.heads_first = heads_first
        self.bn_momentum = bn_momentum

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
        if self.bn_momentum is not None:
            for norm in self._norms:
                norm.momentum = self.bn_momentum

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
        if self.is_frozen:
            for norm in self._norms:
                norm.eval()
