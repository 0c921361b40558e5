"""Files that are damaged between two starts, gradients that are not finite, and full disks."""

import errno
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor

from mmssprl.models.unwrap import unwrap

from .base import Log, Outcome, describe_lost
from .training import STEPS_PER_EPOCH, Runs, Work, train

_EPOCHS = 4
_POINTERS = {
    "missing": None,
    "empty": b"",
    "cut in the path": b"/somewhere/ru",
    "cut in the name": b"/somewhere/run/epoch_3.p",
    "naming nothing": b"epoch_9.pth",
    "naming a folder": b".",
    "of another machine": b"/somewhere/else/epoch_3.pth",
    "holding garbage": b"\xff\x00\xfe",
    "ending in zeros": b"epoch_3.pth" + bytes(100),
}
"""What a pointer may hold; what is right in it names the third epoch."""

Contents = Callable[[bytes], Iterable[bytes | None]]
"""What a file holds after a damage, by what it held; None if it is missing."""


def _flipped(data: bytes) -> Iterator[bytes]:
    draw = random.Random(0)
    for _ in range(40):
        broken = bytearray(data)
        start = draw.randrange(len(data) - 64)
        for i in range(start, start + 64):
            broken[i] ^= draw.randrange(1, 256)
        yield bytes(broken)


DAMAGES: dict[str, tuple[str, str, Contents]] = {
    "pointers": (
        f"pointer {', '.join(_POINTERS)}",
        "last_checkpoint",
        lambda data: _POINTERS.values(),
    ),
    "files": (
        "newest file cut, halved, empty, zeros, missing",
        "epoch_3.pth",
        lambda data: [data[:-100], data[: len(data) // 2], b"", bytes(len(data)), None],
    ),
    "flips": ("64 bytes of the newest file flipped", "epoch_3.pth", _flipped),
}
"""Fault, the file that is damaged, and how."""


def damaged(fault: str, name: str, contents: Contents, log: Log) -> Outcome:
    """Stop a run after three of four epochs, damage a file of it, and let it go on."""
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(Path(folder), _EPOCHS)
        whole, run = Path(folder, "whole"), Path(folder, "run")
        runs.last("whole").unlink()
        (whole / "last_checkpoint").write_text("epoch_3.pth")
        lost: list[int] = []
        survived = 0
        for content in contents((whole / name).read_bytes()):
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(whole, run)
            (run / name).unlink()
            if content is not None:
                (run / name).write_bytes(content)
            child = runs.start("run")
            survived += child.wait() == 0 and runs.has_right_end("run")
            lost.append(3 * STEPS_PER_EPOCH - (child.begun_at or 0))
    log(f"{fault}: {survived} of {len(lost)}")
    return Outcome(fault, len(lost), survived, describe_lost(lost), "end bit-equal")


class BadGradient(Hook):
    """Makes the gradient of the first weight NaN in some steps, counted from 1."""

    def __init__(self, *steps: int) -> None:
        self.steps = steps

    def before_train(self, runner: Runner) -> None:
        """Take hold of the weight."""
        self.runner = runner
        next(unwrap(runner.model).parameters()).register_hook(self._spoil)

    def _spoil(self, gradient: Tensor) -> Tensor:
        return gradient * torch.nan if self.runner.iter + 1 in self.steps else gradient


def not_finite(log: Log) -> Outcome:
    """Make a gradient NaN in the step of a save, and before."""
    steps = range(STEPS_PER_EPOCH + 1, _EPOCHS * STEPS_PER_EPOCH + 1)
    spoiled = [partial(train, hooks=[BadGradient(step)]) for step in steps]
    return _stopped("NaN gradient in any step", spoiled, log)


def full_disk(log: Log) -> Outcome:
    """Find no room when one of the checkpoints is written."""
    spoiled = [
        partial(_train_on_full_disk, number=number, checkpoint=checkpoint)
        for number in (errno.ENOSPC, errno.EDQUOT)
        for checkpoint in range(2, _EPOCHS + 1)
    ]
    return _stopped("full disk, full quota", spoiled, log)


def _stopped(fault: str, spoiled: Sequence[Work], log: Log) -> Outcome:
    """Let trainings end by an error, and go on with them."""
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(Path(folder), _EPOCHS)
        survived, lost = 0, []
        for number, work in enumerate(spoiled):
            name = f"run_{number}"
            first = runs.start(name, work)
            is_sound = first.wait() == 1 and not runs.num_torn(name)
            second = runs.start(name)
            survived += second.wait() == 0 and is_sound and runs.has_right_end(name)
            lost.append(first.steps - (second.begun_at or 0))
    log(f"{fault}: {survived} of {len(spoiled)}")
    remark = "ended by an error, nothing bad saved; the resumed end bit-equal"
    return Outcome(fault, len(spoiled), survived, describe_lost(lost), remark)


def _train_on_full_disk(config: Path, work_dir: Path, number: int, checkpoint: int) -> None:
    fsync = os.fsync
    name = f"epoch_{checkpoint}.pth."

    def fail(file: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{file}")).name.startswith(name):
            raise OSError(number, os.strerror(number))
        fsync(file)

    os.fsync = fail  # type: ignore[assignment]
    train(config, work_dir)
