"""SIGKILL in a save and anywhere: does the run go on, and is its end bit-equal?"""

import random
import tempfile
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from .children import Child
from .outcome import Outcome, describe_lost
from .tiny import STEPS_PER_EPOCH, train, write_config

_EPOCHS = 60
"""Of each run; when one is complete, the next one begins."""
_DRAWN_SAVES = 3
"""A kill is aimed at one of so many saves after a start."""


class Killed:
    """Runs that are killed again and again, until so many kills have been survived or not.

    Args:
        folder: For the runs.
        log: Receives a line now and then.
    """

    def __init__(self, folder: Path, log: Callable[[str], object]) -> None:
        self.folder, self.log = folder, log
        self.config = write_config(folder, _EPOCHS)
        self.num_failed = self.num_torn = self.num_unequal = self.num_runs = 0
        self.lost: list[int] = []
        start = time.monotonic()
        begun, saves = start, []
        child = self._start("whole")
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
        self.epoch_s = (time.monotonic() - start - self.start_s) / _EPOCHS
        self.expected = load_state(folder / "whole" / f"epoch_{_EPOCHS}.pth")

    def run(self, kills: int, strike: Callable[[Child, random.Random], None]) -> None:
        """Kill so many times.

        Args:
            kills: How often.
            strike: Waits for the moment in a child; the draws are the same every time.
        """
        draw = random.Random(0)
        done, stopped_at = 0, 0
        self.num_runs += 1
        while True:
            name = f"run_{self.num_runs}"
            child = self._start(name)
            if done < kills:
                strike(child, draw)
                child.kill()
            status = child.wait()
            if child.begun_at is not None and stopped_at:
                self.lost.append(max(0, stopped_at - child.begun_at))
            stopped_at = max(stopped_at, child.steps)
            self.num_torn += sum(not is_whole(path) for path in self._checkpoints(name))
            if status > 0:
                self.num_failed += 1
                done, stopped_at = done + 1, 0
                self.num_runs += 1
            elif status == 0:  # it came to its end
                final = load_state(self.folder / name / f"epoch_{_EPOCHS}.pth")
                self.num_unequal += not equal(final, self.expected)
                if done >= kills:
                    return
                stopped_at = 0
                self.num_runs += 1
            else:
                done += 1
                if done % 25 == 0:
                    self.log(f"{done} of {kills} kills, {self.num_runs} runs")

    def outcome(self, fault: str, kills: int) -> Outcome:
        """Return the row of the table."""
        remark = (
            f"{self.num_failed} failed resumes, {self.num_torn} torn files, {self.num_unequal} of "
            f"{self.num_runs} ends not bit-equal; {_EPOCHS} epochs of {STEPS_PER_EPOCH} steps a "
            f"run, a save in each, {1000 * self.save_s:.0f} ms"
        )
        bad = min(kills, self.num_failed + self.num_torn + self.num_unequal)
        return Outcome(fault, kills, kills - bad, describe_lost(self.lost), remark)

    def _start(self, name: str) -> Child:
        function = partial(train, self.config, self.folder / name)
        return Child(function, self.folder / "log.txt")

    def _checkpoints(self, name: str) -> list[Path]:
        return list((self.folder / name).glob("epoch_*.pth"))


def aimed_at_saves(log: Callable[[str], object], kills: int) -> Outcome:
    """Kill at moments that are spread over a save."""
    with tempfile.TemporaryDirectory() as folder:
        runs = Killed(Path(folder), log)

        def strike(child: Child, draw: random.Random) -> None:
            target, delay = draw.randint(1, _DRAWN_SAVES), draw.uniform(0, 1.2 * runs.save_s)
            for letter in child.events():
                target -= letter == "s"
                if not target:
                    time.sleep(delay)
                    return

        runs.run(kills, strike)
        return runs.outcome("kill -9 aimed at a save", kills)


def at_random(log: Callable[[str], object], kills: int) -> Outcome:
    """Kill at moments from the start of a process to some epochs on."""
    with tempfile.TemporaryDirectory() as folder:
        runs = Killed(Path(folder), log)

        def strike(child: Child, draw: random.Random) -> None:
            time.sleep(draw.uniform(0, runs.start_s + 8 * runs.epoch_s))

        runs.run(kills, strike)
        return runs.outcome("kill -9 at random", kills)


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
