"""The norm of the gradient limited module by module."""

from collections.abc import Sequence
from typing import Any

import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch.nn.utils import clip_grad_norm_

from ...errors import UserValueError
from ...models.unwrap import unwrap
from ...registry import HOOKS


@HOOKS.register_module()
class ClipGradientsHook(Hook):
    """Scale down the gradient of each of ``modules`` on its own if its norm exceeds ``max_norm``.

    ``optim_wrapper.clip_grad`` takes one norm over all parameters: a head with a large gradient
    would then slow down its backbone. Parameters outside of ``modules`` are left alone. It runs
    right before the optimizer's own step, so that AmpOptimWrapper has unscaled the gradients.

    Args:
        modules: Attributes of the model, such as ``["backbone", "head"]``.
        max_norm: Largest Euclidean norm of a module's gradient, > 0.

    Raises:
        ValueError: ``max_norm`` out of range, or, when the training starts, a module that the
            model does not have.
    """

    def __init__(self, modules: Sequence[str], max_norm: float) -> None:
        if not max_norm > 0:
            raise UserValueError(
                f"max_norm must be > 0, but got {max_norm}; remove the hook to clip nothing."
            )
        self.modules = tuple(modules)
        self.max_norm = max_norm

    def before_train(self, runner: Runner) -> None:
        """Attach the clipping to the optimizer."""
        children = dict(unwrap(runner.model).named_children())
        missing = [name for name in self.modules if name not in children]
        if missing:
            raise UserValueError(
                f"modules must be parts of the model, but {missing} are not; "
                f"its parts are {list(children)}."
            )
        groups = [list(children[name].parameters()) for name in self.modules]

        def clip(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            for parameters in groups:
                clip_grad_norm_(parameters, self.max_norm)

        runner.optim_wrapper.optimizer.register_step_pre_hook(clip)
