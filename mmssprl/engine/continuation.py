"""Continuing from trained weights: the heads first, then the whole network."""

from collections.abc import Mapping
from math import isnan
from typing import Any

import torch
from mmengine.dist import all_reduce
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from ..console.log_line import LogLine
from ..console.wording import wrapped
from ..errors import UserValueError
from ..models import PretrainingModel
from ..models.momentum_encoder import MomentumEncoder
from ..models.unwrap import unwrap
from ..registry import HOOKS

LEFT_CHANCE = 0.95
"""Relative loss of the image below which heads count as having learned; without a trained backbone
most healthy runs are below it after a fifth of their training (``monitoring/bands.csv``)."""
_LEARNS = "backbone_learns_from"
"""Step after which the backbone learns, among what a checkpoint keeps of the run."""


@HOOKS.register_module()
class ContinuationHook(Hook):
    """Let the heads of a pre-training learn alone at first, on a backbone that is trained already.

    The gradients of heads that know nothing yet would undo the backbone's training, as they do in
    fine-tuning: "Fine-Tuning can Distort Pretrained Features and Underperform Out-of-Distribution"
    (arXiv:2202.10054). So long the backbone gets no update, and its BatchNorm, that of its momentum
    copy too, is in evaluation mode: no running statistic moves. At the end of an epoch in which the
    loss of the image has left the value of chance (``LossTerm.relative``, the mean over all ranks
    of the epoch's last step), the backbone begins to learn; at the latest after ``heads_first``
    epochs, the only rule for methods without such a value. What was decided is in the checkpoints.

    Args:
        heads_first: Most epochs in which the heads learn alone; 0 for none.
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
        """Find the parts of the backbone, and whether it learns already in a resumed run."""
        model = unwrap(runner.model)
        learns = runner.message_hub.get_info(_LEARNS) is not None
        self.is_frozen = runner.epoch < self.heads_first and not learns
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

    def before_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Keep the statistics; the loop puts all into training mode when an epoch begins."""
        if self.is_frozen:
            for norm in self._norms:
                norm.eval()

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None
    ) -> None:
        """Decide after an epoch's last step, alike on all ranks."""
        if not self.is_frozen or not self.end_of_epoch(runner.train_dataloader, batch_idx):
            return
        relative = relative_loss(unwrap(runner.model), outputs or {})
        done = runner.epoch + 1
        if done < self.heads_first and not relative < LEFT_CHANCE:
            return
        self.is_frozen = False
        runner.message_hub.update_info(_LEARNS, runner.iter + 1)
        loss = "" if isnan(relative) else f", the loss of the heads is {relative:.2f} of chance"
        text = f"after epoch {done} the backbone begins to learn{loss}"
        runner.logger.info(LogLine(text, wrapped(text)))


def relative_loss(model: PretrainingModel, losses: Mapping[str, Tensor]) -> float:
    """Return the mean relative loss of the image's terms over all ranks; NaN without a chance.

    A collective: every rank must call it.
    """
    found = [
        term.relative(losses[name].item())
        for name, term in model.loss_terms().items()
        if name in losses and term.scale == 0 and term.chance
    ]
    mean = torch.tensor(found).mean()
    all_reduce(mean, "mean")
    return mean.item()
