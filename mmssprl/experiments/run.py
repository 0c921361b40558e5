"""A run: commands that are done once, in a folder of their own, and leave a result file."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..console.messages import message_for_user
from ..errors import UserRuntimeError
from ..system.outputs import write_whole
from ..system.stopping import PARENT

SETTINGS, MEASURED = "settings.json", "measured.json"
_MAX_REASON = 200


class RunFailedError(UserRuntimeError):
    """Why a run has no result, in one line."""


@dataclass(frozen=True)
class RunOutcome:
    """What became of a run, and the content of its result file.

    ``values`` are what it measured, as JSON holds it, ``seconds`` the wall time of the call that
    ended it, ``settings`` those of the ``Run``; ``reason`` is why it failed, empty if it is done.
    """

    values: dict[str, Any]
    seconds: float
    settings: dict[str, Any] = field(default_factory=dict)
    reason: str = ""


def module_command(module: str, folder: Path) -> tuple[str, ...]:
    """Return the command that runs a module on a folder."""
    return (sys.executable, "-m", module, str(folder))


def run_module(work: Callable[[Path], None]) -> None:
    """Do the work of a run in its process; a mistake of the user ends it with one line."""
    try:
        work(Path(sys.argv[1]))
    except Exception as error:
        message = message_for_user(error)
        if message is None:
            raise
        sys.exit(message)


@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """Commands that are done once.

    Args:
        name: As in the lines of progress, such as ``linear-coco, random, seed 0``.
        folder: Holds all files of the run.
        commands: Commands of this package, one after the other, so that they end when this process
            does, however that ends. Each resumes where it was stopped.
        measures: File in the folder that the last command writes; "" if nothing is measured.
        inputs: What the commands read in ``settings.json`` of the folder. Where that says something
            else, the folder is of another run and is emptied. None if their arguments tell all.
        settings: What a kept result must have been made with to count, as JSON holds it.
    """

    name: str
    folder: Path
    commands: tuple[tuple[str, ...], ...]
    measures: str = MEASURED
    inputs: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def log_file(self) -> Path:
        """What the commands print, of all attempts."""
        return self.folder / "run.log"

    @property
    def result_file(self) -> Path:
        """Written last."""
        return self.folder / "result.json"

    @property
    def measured_file(self) -> Path:
        """Written by the last command."""
        return self.folder / self.measures

    @property
    def is_complete(self) -> bool:
        """Whether it was measured with the settings of now, here or as a task of Slurm."""
        return self.kept() is not None or (self.inputs is None and self.measured_file.is_file())

    def kept(self) -> RunOutcome | None:
        """Return what an earlier call has left; None if it is nothing, damaged or made otherwise.

        What the commands have measured is another file, so a damaged result is read again.
        """
        try:
            found = RunOutcome(**json.loads(self.result_file.read_text()))
        except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
            return None
        return found if found.settings == self.settings else None

    def keep(self, outcome: RunOutcome) -> None:
        """Write the result file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.result_file, json.dumps(asdict(outcome), indent=2) + "\n")

    def work(self, threads: int, gpus: str = "") -> dict[str, Any]:
        """Run the commands unless they have measured already, and return the result's values.

        ``gpus`` is CUDA_VISIBLE_DEVICES of the commands; "" leaves it as it is.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.inputs is not None:
            text = json.dumps(self.inputs, indent=2, sort_keys=True) + "\n"
            file = self.folder / SETTINGS
            if not (file.exists() and file.read_text() == text):
                shutil.rmtree(self.folder)
                self.folder.mkdir()
                write_whole(file, text)
        if not self.measured_file.is_file():
            self.run_commands(threads, gpus)
        return self.read(json.loads(self.measured_file.read_text())) if self.measures else {}

    def run_commands(self, threads: int, gpus: str) -> None:
        """Run the commands up to the first that fails, whose last line is the reason then."""
        env = {**os.environ, "OMP_NUM_THREADS": str(threads), PARENT: str(os.getpid())}
        if gpus:
            env["CUDA_VISIBLE_DEVICES"] = gpus
        for command in self.commands:
            start = self.log_file.stat().st_size if self.log_file.exists() else 0
            with self.log_file.open("a") as file:
                to: dict[str, Any] = {
                    "stdin": subprocess.DEVNULL,
                    "stdout": file,
                    "stderr": subprocess.STDOUT,
                }
                status = subprocess.run(command, env=env, **to).returncode
            if status:
                said = self.log_file.read_bytes()[start:].decode(errors="replace").splitlines()
                last = next((line.strip() for line in reversed(said) if line.strip()), "no output")
                reason = f"{last[:_MAX_REASON]} (exit code {status}, {self.log_file})"
                raise RunFailedError(reason)

    def read(self, measured: dict[str, Any]) -> dict[str, Any]:
        """Return what the tables need of what was measured, or raise RunFailedError."""
        return measured

    def last_line(self) -> str:
        """Return its name and what it has said last."""
        said = b""
        if self.log_file.exists():
            with self.log_file.open("rb") as file:  # which is long, and asked for each second
                file.seek(-min(_MAX_REASON, self.log_file.stat().st_size), os.SEEK_END)
                said = file.read()
        return f"{self.name}: {(said.decode(errors='replace').splitlines() or ['begins'])[-1]}"

    def summary(self, values: dict[str, Any]) -> str:
        """Return what a line of progress tells of the result."""
        return "done"

    def shell_line(self) -> str:
        """Return the commands as one line for a shell."""
        return " && ".join(shlex.join(command) for command in self.commands)
