"""Updates with a gradient that is not finite, dropped as if their batch had never come."""

from collections.abc import Mapping
from typing import Any

import torch
from mmengine import dist
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor, nn

from ...errors import UserValueError
from ...registry import HOOKS
from ..finiteness import NotFiniteError, is_not_finite, optimizers_of
from ..unwrap import unwrap

IN_ROW = "dropped_in_row"
"""What the log calls the updates that were dropped without a good one between them."""


@HOOKS.register_module()
class SkipBadStepsHook(Hook):
    """Drop up to ``limit`` updates in a row whose gradient is not finite on any rank.

    Weights, statistics of BatchNorm, queues, averages and the optimizer's state are what they were
    before the dropped update's batch; the schedule goes on. On a GPU no step waits for the device:
    the state is copied after each update, and a kernel per tensor puts it back or leaves it alone.
    That takes the memory of the state once more. Python numbers, such as how full a queue is, are
    put back too where the flag is read anyway: on a CPU, and in the first update. With float16
    the gradient scaler drops such updates itself, and nothing is counted here.

    Args:
        limit: >= 1; one more in a row ends the training.

    Raises:
        ValueError: ``limit`` below 1.
    """

    priority = 5  # before RuntimeInfoHook and all others that look at a step's outcome

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise UserValueError(
                f"SkipBadStepsHook: limit must be >= 1, but got {limit}; leave the hook out to "
                "drop nothing."
            )
        self.limit = limit
        self._is_bad: Tensor | None = None
        self._in_row: Tensor | None = None
        self._copies: dict[Tensor, Tensor] = {}
        self._numbers: dict[nn.Module, Any] = {}
        self._has_copy = False

    def before_train(self, runner: Runner) -> None:
        """Look at the gradients right before each update."""
        self._optimizers = optimizers_of(runner)
        for optimizer in self._optimizers:
            optimizer.register_step_pre_hook(self._look)

    def before_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Copy the state, once for each update."""
        if self._has_copy:
            return
        model = unwrap(runner.model)
        tensors = self._state(model)
        new = {each: torch.empty_like(each) for each in tensors if each not in self._copies}
        self._copies.update(new)
        with torch.no_grad():
            torch._foreach_copy_([self._copies[each] for each in tensors], tensors)
        self._numbers = {
            module: module.get_extra_state()
            for module in model.modules()
            if type(module).get_extra_state is not nn.Module.get_extra_state
        }
        self._has_copy = True

    @torch.no_grad()
    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: dict | None = None
    ) -> None:
        """Put the state back if the update was bad, and count.

        Raises:
            NotFiniteError: More than ``limit`` in a row.
        """
        self._require_few(runner)
        if self._is_bad is None:
            return  # gradients are being accumulated, or the scaler has dropped the update
        bad, self._is_bad, self._has_copy = self._is_bad, None, False
        dist.all_reduce(bad, op="max")
        is_first = self._in_row is None
        before = torch.zeros_like(bad) if self._in_row is None else self._in_row
        # It stays above the limit, for it is read later.
        self._in_row = torch.where((bad > 0) | (before > self.limit), before + 1, 0)
        for each in self._state(unwrap(runner.model)):
            # What the optimizer has made in this step begins with zeros.
            old = self._copies.get(each, torch.zeros((), dtype=each.dtype, device=each.device))
            torch.where(bad.to(each.device) > 0, old, each, out=each)
        if (is_first or bad.device.type == "cpu") and bad.item():
            for module, number in self._numbers.items():
                module.set_extra_state(number)
        if outputs is not None:
            outputs[IN_ROW] = self._in_row

    def after_train(self, runner: Runner) -> None:
        """Look at the last updates too."""
        if self._in_row is not None:
            self._refuse(runner, int(self._in_row))

    def _look(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        bad = is_not_finite([p.grad for p in parameters if p.grad is not None])
        self._is_bad = bad if self._is_bad is None else torch.maximum(self._is_bad, bad)

    def _state(self, model: nn.Module) -> list[Tensor]:
        values = [value for each in self._optimizers for value in each.state.values()]
        tensors = [t for each in values if isinstance(each, Mapping) for t in each.values()]
        everything = (*model.parameters(), *model.buffers(), *tensors)
        return [each for each in everything if isinstance(each, Tensor)]

    def _require_few(self, runner: Runner) -> None:
        """Look at what the log has read."""
        scalars = runner.message_hub.log_scalars
        if self._in_row is not None and f"train/{IN_ROW}" in scalars:
            self._refuse(runner, int(scalars[f"train/{IN_ROW}"].current()))

    def _refuse(self, runner: Runner, in_row: int) -> None:
        if in_row > self.limit:
            raise NotFiniteError(
                f"at most {self.limit} updates in a row may be dropped for a gradient that is not "
                f"finite, but up to step {runner.iter} more were; the last checkpoint is still "
                "there: go on from it by --resume with a lower optim_wrapper.optimizer.lr."
            )


def drop_bad_steps(cfg: Config, limit: int | None) -> None:
    """Let a training drop bad updates.

    Args:
        cfg: Of the training; the run's own, which has the hook already if an earlier start did.
        limit: As of the hook, 0 to drop none; None leaves the config as it is.

    Raises:
        ValueError: Below 0.
    """
    if limit is None:
        return
    if limit < 0:
        raise UserValueError(f"--skip-bad-steps must be >= 0, but got {limit}.")
    hook = {"type": f"mmssprl.{SkipBadStepsHook.__name__}", "limit": limit}
    others = [each for each in cfg.get("custom_hooks") or [] if each.get("type") != hook["type"]]
    cfg.custom_hooks = [*others, hook] if limit else others
