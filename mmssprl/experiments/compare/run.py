"""Runs of the comparison, each a process that leaves what it measured in its folder."""

import json
import shutil
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...pretraining.methods import Method
from ...system.outputs import write_whole
from ..commands import CommandRun
from ..run import RunOutcome
from .images import Split
from .training import MEASURED, SETTINGS


@dataclass(frozen=True, eq=False, kw_only=True)
class ProcessRun(CommandRun):
    """A command that reads ``settings.json`` of its folder and writes ``measured.json`` there."""

    @abstractmethod
    def inputs(self) -> dict[str, Any]:
        """Return what is written into ``settings.json``."""

    def work(self, needed: Sequence[RunOutcome], threads: int) -> dict[str, Any]:
        """Do it, or go on with it if it was stopped and the settings are still the same."""
        text = json.dumps(self.inputs(), indent=2, sort_keys=True) + "\n"
        file = self.folder / SETTINGS
        if not (file.exists() and file.read_text() == text):
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            write_whole(file, text)
        super().work(needed, threads)
        return {**self.described(), **json.loads((self.folder / MEASURED).read_text())}

    def described(self) -> dict[str, Any]:
        """Return what a result tells beside what was measured."""
        return {}


@dataclass(frozen=True, eq=False, kw_only=True)
class PretrainRun(ProcessRun):
    """A pre-training of one method with one seed, and its probe.

    Args:
        method: What is trained.
        seed: Of all randomness.
        epochs: 0 if it does not train.
        lr_factor: Of the config's learning rate.
        split: Which images it trains on and is scored by.
        config: File of the method.
        options: Values that replace the config's.
        data: Folder of the images and their labels.
        image_px: Side of the crops that are probed.
        digests: Of its recipe, of the code that trains and of the list of its images.
    """

    method: Method
    seed: int
    epochs: int
    lr_factor: float
    split: Split
    config: Path
    options: Mapping[str, Any]
    data: Path
    image_px: int
    digests: Mapping[str, str]

    def settings(self, needed: Sequence[RunOutcome]) -> dict[str, Any]:
        """Return all that its result depends on, but for where files are."""
        elsewhere = ("train_dataloader.dataset", "default_hooks.")
        replaced = {k: v for k, v in self.options.items() if not k.startswith(elsewhere)}
        return {
            **self.described(),
            "options": replaced,
            **self.digests,
            "image_px": self.image_px,
        }

    def inputs(self) -> dict[str, Any]:
        """Return what the process is told."""
        return {
            "config": str(self.config),
            "options": dict(self.options),
            "trains": self.method.trains,
            "seed": self.seed,
            "split": self.split,
            **self.digests,
            "data": str(self.data),
            "image_px": self.image_px,
        }

    def described(self) -> dict[str, Any]:
        """Return which run it is."""
        return {
            "method": self.method.key,
            "seed": self.seed,
            "epochs": self.epochs,
            "lr_factor": self.lr_factor,
            "split": self.split,
        }

    @property
    def is_kept(self) -> bool:
        """Whether it is complete, with the settings that it has now."""
        return self.kept(self.settings([])) is not None

    def summary(self, values: dict[str, Any]) -> str:
        """Return the score, and a mark if it has collapsed."""
        mark = " (collapsed)" if values.get("collapsed") else ""
        return f"mAP {100 * values['mAP']:.1f} %{mark}"


@dataclass(frozen=True, eq=False, kw_only=True)
class PaceRun(ProcessRun):
    """Some steps of each of several methods, in turns.

    Args:
        methods: By key: ``config``, ``recipe`` (its digest) and ``options``.
        rounds: Turns of each method.
        steps: That are timed in a turn.
        seconds: After which a turn ends, too.
        code: Digest of the code that trains.
    """

    methods: Mapping[str, Mapping[str, Any]]
    rounds: int
    steps: int
    seconds: float
    code: str

    def settings(self, needed: Sequence[RunOutcome]) -> dict[str, Any]:
        """Return which recipes were measured, and of which code."""
        recipes = {key: method["recipe"] for key, method in self.methods.items()}
        return {"recipes": recipes, "code": self.code}

    def inputs(self) -> dict[str, Any]:
        """Return what the process is told."""
        limits = {"rounds": self.rounds, "steps": self.steps, "seconds": self.seconds}
        return {"methods": dict(self.methods), "code": self.code, **limits}

    def summary(self, values: dict[str, Any]) -> str:
        """Return the seconds of a step of each method."""
        return ", ".join(f"{k} {1000 * s:.0f} ms" for k, s in values["seconds"].items())


def module_command(module: str, folder: Path) -> tuple[str, ...]:
    """Return the command that runs a module of this package on a folder."""
    return (sys.executable, "-m", f"{__package__}.{module}", str(folder))
