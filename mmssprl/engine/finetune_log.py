"""The log of a fine-tuning on the console: a line an epoch, and the score of each validation."""

import time
from typing import Any

from mmengine.runner import Runner

from ..console.durations import format_hours
from ..console.log_line import LogLine, epoch_head
from ..console.wording import counted
from ..registry import LOG_PROCESSORS
from .log_processor import PretrainLogProcessor


@LOG_PROCESSORS.register_module()
class FinetuneLogProcessor(PretrainLogProcessor):
    """PretrainLogProcessor, with a short form for validations, and a time left that counts them.

    After the first validation, which takes what the forecast could not know (all images, and the
    score), the console has a second forecast.

    Args:
        key: Of the score that is shown, among those of the validation.
        name: Of the same for people.
        factor: What makes per cent of it.
        kwargs: As mmengine's ``LogProcessor``.
    """

    def __init__(self, key: str, name: str, factor: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.key, self.name, self.factor = key, name, factor
        self._trained_at: float | None = None
        """When the last line of the training was written."""
        self._eta_s = 0.0
        """Seconds of the steps that were left then; a validation's replace them in the hub."""
        self._validation_s: float | None = None
        """Seconds from there to the end of a validation, the checkpoint's among them."""

    def get_log_after_iter(self, runner: Runner, batch_idx: int, mode: str) -> tuple[dict, str]:
        """Return the scalars and the text of one line; none of a validation's is for people."""
        tag, text = super().get_log_after_iter(runner, batch_idx, mode)
        self._trained_at = time.monotonic() if mode == "train" else self._trained_at
        return tag, text if isinstance(text, LogLine) else LogLine(text, None)

    def seconds_left(self, runner: Runner, epoch: int, eta_s: float) -> float:
        """Return ``eta_s`` of the steps, and of the validations after so many epochs."""
        self._eta_s = eta_s
        return eta_s + self._num_left(runner, epoch) * (self._validation_s or 0.0)

    def get_log_after_epoch(
        self, runner: Runner, batch_idx: int, mode: str, with_non_scalar: bool = False
    ) -> tuple[dict, str]:
        """Return the scores of a validation, and their text."""
        tag, text = super().get_log_after_epoch(runner, batch_idx, mode, with_non_scalar)
        if mode != "val" or self.key not in tag:
            return tag, LogLine(text, None)
        parts = [epoch_head(runner.epoch, runner.max_epochs)]
        parts.append(f"val {self.name} {self.factor * tag[self.key]:.1f} %")
        # CheckpointHook, which keeps the best one, has not seen this score yet.
        best = runner.message_hub.get_info("best_score")
        if best is None or tag[self.key] > best:
            parts.append("the best so far")
        console = "  ".join(parts)
        is_first = self._validation_s is None
        if self._trained_at is not None:
            self._validation_s = time.monotonic() - self._trained_at
        if is_first and self._validation_s and runner.epoch < runner.max_epochs:
            num = self._num_left(runner, runner.epoch)
            left = format_hours(self.seconds_left(runner, runner.epoch, self._eta_s) / 3600)
            each = format_hours(self._validation_s / 3600)
            console += (
                f"\nsecond forecast: about {left} left, with {counted(num, 'validation')} of {each}"
            )
        return tag, LogLine(text, console)

    def _num_left(self, runner: Runner, epoch: int) -> int:
        """Return the validations after an epoch, that of the end among them."""
        every, last = runner.train_loop.val_interval, runner.max_epochs
        return 1 + sum(e % every == 0 or e == last for e in range(epoch + 1, last + 1))
