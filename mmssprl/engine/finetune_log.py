"""The log of a fine-tuning on the console: a line an epoch, and the score of each validation."""

import time
from typing import Any

from mmengine.runner import Runner

from ..console.durations import format_hours
from ..console.log_line import LogLine, epoch_head
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

    _trained_at = _steps_s = 0.0
    """When the last line of the training was written, and the seconds of the steps left then."""
    _validation_s = 0.0
    """Seconds from there to the end of a validation, the checkpoint's among them."""

    def __init__(self, key: str, name: str, factor: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.key, self.name, self.factor = key, name, factor

    def get_log_after_iter(self, runner: Runner, batch_idx: int, mode: str) -> tuple[dict, str]:
        """Return the scalars and the text of one line; none of a validation's is for people."""
        if mode == "train":
            self._trained_at = time.monotonic()
            self._steps_s = runner.message_hub.get_info("eta", 0.0)
            epoch = (runner.iter + 1) // len(runner.train_dataloader)
            runner.message_hub.update_info("eta", self._left_s(runner, epoch))
        tag, text = super().get_log_after_iter(runner, batch_idx, mode)
        return tag, text if isinstance(text, LogLine) else LogLine(text, None)

    def get_log_after_epoch(
        self, runner: Runner, batch_idx: int, mode: str, with_non_scalar: bool = False
    ) -> tuple[dict, str]:
        """Return the scores of a validation, and their text."""
        tag, text = super().get_log_after_epoch(runner, batch_idx, mode, with_non_scalar)
        if mode != "val" or self.key not in tag:
            return tag, LogLine(text, None)
        console = epoch_head(runner.epoch, runner.max_epochs)
        console += f"  val {self.name} {self.factor * tag[self.key]:.1f} %"
        # CheckpointHook, which keeps the best one, has not seen this score yet.
        best = runner.message_hub.get_info("best_score")
        if best is None or tag[self.key] > best:
            console += "  the best so far"
        is_first = not self._validation_s
        if self._trained_at:
            self._validation_s = time.monotonic() - self._trained_at
        if is_first and self._validation_s and runner.epoch < runner.max_epochs:
            left = format_hours(self._left_s(runner, runner.epoch) / 3600)
            console += f"\nsecond forecast: about {left} left, validations included"
        return tag, LogLine(text, console)

    def _left_s(self, runner: Runner, epoch: int) -> float:
        """Return the seconds of steps and validations after an epoch, the end's among them."""
        every, last = runner.train_loop.val_interval, runner.max_epochs
        num = 1 + sum(e % every == 0 or e == last for e in range(epoch + 1, last + 1))
        return self._steps_s + num * self._validation_s
