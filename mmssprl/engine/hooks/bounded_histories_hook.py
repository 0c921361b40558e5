"""Histories of scalars that do not grow with the training."""

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
    checkpoint: after 200,000 steps that takes longer than a small step. With a window 'global' of
    ``log_processor.custom_cfg`` everything is kept, as that asks for.
    """

    priority = "VERY_LOW"
    _length: int | None = None

    def before_train(self, runner: Runner) -> None:
        """Find out how far the log looks back: an epoch, a window, or to the last line."""
        windows = [each.get("window_size") for each in runner.log_processor.custom_cfg]
        if "global" in windows:
            return
        loaders = [loop.dataloader for loop in (runner.train_loop, runner.val_loop) if loop]
        intervals = [hook.interval for hook in runner.hooks if isinstance(hook, LoggerHook)]
        lengths = [runner.log_processor.window_size, *map(len, loaders), *intervals, *windows]
        self._length = max(LEAST, *(length for length in lengths if isinstance(length, int)))

    def after_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Bound the histories: of new scalars, and of those that a checkpoint has brought."""
        if self._length is not None:
            for history in runner.message_hub.log_scalars.values():
                history.max_length = self._length
