"""Histories of scalars that do not grow with the training."""

from collections.abc import Sequence
from typing import Any

from mmengine.hooks import Hook, LoggerHook
from mmengine.runner import Runner

from ...registry import HOOKS

LEAST = 1000
"""Values that each scalar keeps at least: more than the lines of any shipped config look back."""


@HOOKS.register_module()
class BoundedHistoriesHook(Hook):
    """Keep only as many values of each scalar as the log looks back.

    mmengine keeps a million of each, copies all of them at every step and writes them into every
    checkpoint: after 200,000 steps that takes longer than a small step. Kept are as many as the
    widest window of the log processor, an epoch, what is between two lines, and 1,000. With a
    window 'global' of ``log_processor.custom_cfg`` everything is kept, as that asks for.
    """

    priority = "VERY_LOW"

    def __init__(self) -> None:
        self._length: int | None = None

    def before_train(self, runner: Runner) -> None:
        """Find out how far the log looks back."""
        processor = runner.log_processor
        windows: Sequence[Any] = [each.get("window_size") for each in processor.custom_cfg]
        if "global" in windows:
            return
        intervals = [hook.interval for hook in runner.hooks if isinstance(hook, LoggerHook)]
        lengths = [LEAST, len(runner.train_dataloader), processor.window_size, *intervals, *windows]
        if runner.val_loop is not None:
            lengths.append(len(runner.val_dataloader))
        self._length = max(length for length in lengths if isinstance(length, int))

    def after_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Bound the histories: of new scalars, and of those that a checkpoint has brought."""
        if self._length is not None:
            for history in runner.message_hub.log_scalars.values():
                history.max_length = self._length
