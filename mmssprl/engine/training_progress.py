"""The live line of a training."""

import time
from collections import deque

from mmengine.runner import EpochBasedTrainLoop, Runner

from ..console.durations import format_hours
from ..console.log_line import epoch_head

_WINDOW = 30  # calls; a terminal asks every second


class TrainingProgress:
    """Describes how far a training is, with its rate and the time left, at each call.

    It reads counters of the loop only, so that it may run in another thread.
    """

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self._seen = deque([(time.monotonic(), runner.iter)], _WINDOW)

    def __call__(self) -> str:
        """Return ``epoch 1.35/20  31 images/s  12 min left``."""
        step = self.runner.iter
        now_s = time.monotonic()
        first_s, first_step = self._seen[0]
        self._seen.append((now_s, step))
        steps_per_s = (step - first_step) / max(now_s - first_s, 1e-9)
        if not steps_per_s:  # compiling, validating or saving
            return f"{self._place(step)},"

        left_s = (self.runner.max_iters - step) / steps_per_s
        return (
            f"{self._place(step)}  {self._rate(steps_per_s)}  {format_hours(left_s / 3600)} left,"
        )

    def _place(self, step: int) -> str:
        loop = self.runner.train_loop
        if isinstance(loop, EpochBasedTrainLoop):
            return epoch_head(step / len(loop.dataloader), loop.max_epochs)
        return f"step {step:,} of {self.runner.max_iters:,}"

    def _rate(self, steps_per_s: float) -> str:
        batch_size = self.runner.train_dataloader.batch_size  # None with a batch sampler
        if batch_size is None:
            return f"{steps_per_s:,.2f} steps/s"
        rate = steps_per_s * batch_size * self.runner.world_size
        return f"{rate:,.{1 if rate < 10 else 0}f} images/s"
