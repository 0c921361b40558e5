"""Runs that cannot save: a state that is not finite, and a full disk."""

import errno
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor

from mmssprl.models.unwrap import unwrap

from .children import Child
from .kills import equal, is_whole, load_state
from .outcome import Outcome, describe_lost
from .tiny import STEPS_PER_EPOCH, train, write_config

_EPOCHS = 4


class BadGradient(Hook):
    """Makes the gradient of the first weight NaN in some steps.

    Args:
        steps: Counted from 1.
    """

    def __init__(self, *steps: int) -> None:
        self.steps = steps

    def before_train(self, runner: Runner) -> None:
        """Take hold of the weight."""
        self.runner = runner
        next(unwrap(runner.model).parameters()).register_hook(self._spoil)

    def _spoil(self, gradient: Tensor) -> Tensor:
        return gradient * torch.nan if self.runner.iter + 1 in self.steps else gradient


def not_finite(log: Callable[[str], object]) -> Outcome:
    """Make a gradient NaN in the step of a save, and before."""
    steps = range(STEPS_PER_EPOCH + 1, _EPOCHS * STEPS_PER_EPOCH + 1)
    spoiled = [partial(_train_spoiled, step=step) for step in steps]
    return _stopped("NaN gradient in any step", spoiled, log)


def full_disk(log: Callable[[str], object]) -> Outcome:
    """Find no room when one of the checkpoints is written."""
    spoiled = [
        partial(_train_on_full_disk, number=number, checkpoint=checkpoint)
        for number in (errno.ENOSPC, errno.EDQUOT)
        for checkpoint in range(2, _EPOCHS + 1)
    ]
    return _stopped("full disk, full quota", spoiled, log)


def _stopped(
    fault: str, spoiled: Sequence[Callable[[Path, Path], None]], log: Callable[[str], object]
) -> Outcome:
    """Let trainings end by an error, and go on with them."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        config = write_config(folder, _EPOCHS)
        last = f"epoch_{_EPOCHS}.pth"
        Child(partial(train, config, folder / "whole"), folder / "log.txt").wait()
        expected = load_state(folder / "whole" / last)
        survived, lost = 0, []
        for number, train_spoiled in enumerate(spoiled):
            run = folder / f"run_{number}"
            first = Child(partial(train_spoiled, config, run), folder / "log.txt")
            has_failed = first.wait() == 1
            is_sound = all(is_whole(path) for path in run.glob("epoch_*.pth"))
            second = Child(partial(train, config, run), folder / "log.txt")
            goes_on = second.wait() == 0 and equal(load_state(run / last), expected)
            survived += has_failed and is_sound and goes_on
            lost.append(first.steps - (second.begun_at or 0))
        log(f"{fault}: {survived} of {len(spoiled)}")
        remark = "ended by an error, nothing bad saved; the resumed end bit-equal"
        return Outcome(fault, len(spoiled), survived, describe_lost(lost), remark)


def _train_spoiled(config: Path, work_dir: Path, step: int) -> None:
    train(config, work_dir, [BadGradient(step)])


def _train_on_full_disk(config: Path, work_dir: Path, number: int, checkpoint: int) -> None:
    fsync = os.fsync
    name = f"epoch_{checkpoint}.pth."

    def fail(file: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{file}")).name.startswith(name):
            raise OSError(number, os.strerror(number))
        fsync(file)

    os.fsync = fail  # type: ignore[assignment]
    train(config, work_dir)
