"""The live line of a training."""

import time
from collections import deque
from typing import Any

from mmengine.hooks import Hook
from mmengine.runner import EpochBasedTrainLoop, Runner

from ..console.durations import format_hours, format_rate
from ..console.log_line import epoch_head

_WINDOW_S = 60.0


class TrainingProgress(Hook):
    """Describes how far a training is, with the rate of the last minute and the time left.

    ``text`` may be called in another thread: it reads counters of the loop only.
    """

    priority = "LOWEST"  # after hooks that score the weights before the first step

    def __init__(self) -> None:
        self._runner: Any = None
        self._seen: deque[tuple[float, int]] = deque()  # times and steps

    def before_train(self, runner: Runner) -> None:
        """Begin to count, after a resumed run has its step."""
        self._seen.append((time.monotonic(), runner.iter))
        self._runner = runner

    def end(self) -> None:
        """Release the runner: its model's wrapper holds the process group."""
        self._runner = None

    def text(self) -> str:
        """Return ``epoch 1.35/20  31 images/s  12 min left``."""
        runner = self._runner
        if runner is None:
            return "starting the training"

        step = runner.iter
        now_s = time.monotonic()
        self._seen.append((now_s, step))
        while len(self._seen) > 2 and now_s - self._seen[1][0] > _WINDOW_S:
            self._seen.popleft()
        first_s, first_step = self._seen[0]

        steps_per_s = (step - first_step) / max(now_s - first_s, 1e-9)
        if not steps_per_s:  # compiling, validating or saving
            return _place(runner, step)
        left_s = (runner.max_iters - step) / steps_per_s
        left = format_hours(left_s / 3600)
        return f"{_place(runner, step)}  {_rate(runner, steps_per_s)}  {left} left"


def _place(runner: Runner, step: int) -> str:
    loop = runner.train_loop
    if isinstance(loop, EpochBasedTrainLoop):
        return epoch_head(step / len(loop.dataloader), loop.max_epochs)
    return f"step {step:,} of {runner.max_iters:,}"


def _rate(runner: Runner, steps_per_s: float) -> str:
    batch_size = runner.train_dataloader.batch_size  # None with a batch sampler
    if batch_size is None:
        return f"{steps_per_s:,.2f} steps/s"
    return format_rate(steps_per_s * batch_size * runner.world_size, "images")
