"""Losses, and what else a model logs, that wait on the device until somebody reads them."""

import math
from typing import Any

import torch
from mmengine.hooks import LoggerHook, RuntimeInfoHook
from mmengine.runner import Runner
from torch import Tensor

from ...models import PretrainingModel
from ...models.unwrap import unwrap
from ...registry import HOOKS
from ...saving.checkpoint_checks import NotFiniteError


@HOOKS.register_module()
class PretrainRuntimeInfoHook(RuntimeInfoHook):
    """mmengine's RuntimeInfoHook without its wait for the device, once per loss and step.

    The losses of all steps, and what ``PretrainingModel.health`` says after each, reach the message
    hub in their order, but in one transfer: when a LoggerHook is about to write them, when an epoch
    or the training ends, and when a checkpoint is saved, which holds their history. The first
    step's are read at once. Hooks that read ``train/loss`` in between see the last transfer.
    Where a LoggerHook is about to write, what ``PretrainingModel.examine`` finds is with them.
    """

    def __init__(self) -> None:
        self._steps: list[tuple[int, dict[str, Any]]] = []
        self._has_read = False

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: dict | None = None
    ) -> None:
        """Keep the losses of this step, and hand over those kept where they are about to be read.

        Raises:
            RuntimeError: A loss among those handed over is not finite.
        """
        is_logged = self._is_logged(runner, batch_idx)
        if outputs is not None:
            model = unwrap(runner.model)
            health: dict[str, float | Tensor] = {}
            if isinstance(model, PretrainingModel):
                health = {**model.health(), **(model.examine() if is_logged else {})}
            kept = {
                name: value.detach() if isinstance(value, Tensor) else value
                for name, value in {**outputs, **health}.items()
            }
            self._steps.append((runner.iter + 1, kept))
        if not self._has_read or is_logged:
            self.hand_over(runner)

    def after_train_epoch(self, runner: Runner) -> None:
        """Hand over what no log has read."""
        self.hand_over(runner)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Complete the checkpoint's history; none is written after a loss that is not finite."""
        if self._steps:
            self.hand_over(runner)
            checkpoint["message_hub"] = runner.message_hub.state_dict()

    def _is_logged(self, runner: Runner, batch_idx: int) -> bool:
        return any(
            self.every_n_inner_iters(batch_idx, hook.interval)
            or self.end_of_epoch(runner.train_dataloader, batch_idx)
            for hook in runner.hooks
            if isinstance(hook, LoggerHook)
        )

    def hand_over(self, runner: Runner) -> None:
        """Read the losses of all steps since the last time.

        Raises:
            RuntimeError: One is not finite.
        """
        steps, self._steps = self._steps, []
        self._has_read = True
        tensors = [v for _, kept in steps for v in kept.values() if isinstance(v, Tensor)]
        read = iter(torch.stack([v.reshape(()) for v in tensors]).tolist() if tensors else ())
        for step, kept in steps:
            values = {n: next(read) if isinstance(v, Tensor) else v for n, v in kept.items()}
            _require_finite(values, step)
            for name, value in values.items():
                runner.message_hub.update_scalar(f"train/{name}", value)


def _require_finite(values: dict[str, Any], step: int) -> None:
    bad = {n: v for n, v in values.items() if "loss" in n and not math.isfinite(v)}
    terms = [name for name in bad if name != "loss"]  # 'loss' is their sum
    if bad:
        raise NotFiniteError(
            f"every loss must be finite, but step {step} has "
            f"{', '.join(f'{name}={bad[name]}' for name in terms or bad)}; go on from a checkpoint "
            "before it (--resume CHECKPOINT) with a lower optim_wrapper.optimizer.lr, and with "
            "bfloat16 instead of float16 where optim_wrapper.dtype is set."
        )
