"""Trainings that faults are done to, and the end that each of them must have, bit by bit."""

import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from .children import Child
from .tiny import train, write_config


class Runs:
    """Trainings of one config, each in a folder of its own.

    Args:
        folder: For the runs.
        epochs: Of each run.
        work: Begins a training or goes on with it, given config and work dir.

    Attributes:
        config: The file.
        start_s: From the start of a process to its first step.
        save_s: What a save takes.
        epoch_s: What an epoch takes.
    """

    def __init__(
        self, folder: Path, epochs: int, work: Callable[[Path, Path], object] = train
    ) -> None:
        self.folder, self.epochs, self.work = folder, epochs, work
        self.config = write_config(folder, epochs)
        start = begun = time.monotonic()
        saves = []
        child = self.start("whole")
        for letter in child.events():
            now = time.monotonic()
            begun = now if letter == "s" else begun
            if letter == "e":
                saves.append(now - begun)
            if child.begun_at == child.steps == 0:
                self.start_s = now - start
        if child.wait():
            raise RuntimeError(f"the run without a fault has failed, see {folder / 'log.txt'}")
        self.save_s = sorted(saves)[len(saves) // 2]
        self.epoch_s = (time.monotonic() - start - self.start_s) / epochs
        self.expected = load_state(self.last("whole"))

    def start(self, name: str, work: Callable[[Path, Path], object] | None = None) -> Child:
        """Start a run, or go on with it."""
        function = partial(work or self.work, self.config, self.folder / name)
        return Child(function, self.folder / "log.txt")

    def last(self, name: str) -> Path:
        """Return the checkpoint of the end of a run."""
        return self.folder / name / f"epoch_{self.epochs}.pth"

    def has_right_end(self, name: str) -> bool:
        """Whether a run has ended as the one without a fault."""
        return equal(load_state(self.last(name)), self.expected)

    def num_torn(self, name: str) -> int:
        """Count the checkpoints of a run that are not whole."""
        return sum(not is_whole(path) for path in (self.folder / name).glob("epoch_*.pth"))


def is_whole(path: Path) -> bool:
    """Whether every byte of a checkpoint is as it was written, and plain torch.load reads it."""
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.testzip():
                return False
        torch.load(path, weights_only=True)
    except Exception:  # damaged files raise almost any class
        return False
    return True


def equal(first: Any, second: Any) -> bool:
    """Whether two checkpoints hold the same, bit by bit."""
    if isinstance(first, torch.Tensor):
        return isinstance(second, torch.Tensor) and torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(equal(first[k], second[k]) for k in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(equal, first, second))
    return bool(first == second)


def load_state(path: Path) -> dict[str, Any]:
    """Return what two runs must agree about: not their folder and their times."""
    content = torch.load(path, weights_only=True)
    scalars = content["message_hub"]["log_scalars"]
    history = {name: scalars[f"train/{name}"]["log_history"] for name in ("loss", "lr")}
    kept = ("state_dict", "optimizer", "param_schedulers")
    return {"history": history, **{key: content[key] for key in kept}}
