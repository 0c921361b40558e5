"""A run: commands that run once, in their own folder, and leave a result file."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from ..console.messages import message_for_user
from ..console.quiet import quiet_console
from ..errors import UserRuntimeError
from ..system.environment import CORES_VARIABLE
from ..system.openmp import IDLE_THREADS_YIELD
from ..system.outputs import write_whole
from ..system.stopping import EXPERIMENT_VARIABLE, end_with_experiment

SETTINGS = "settings.json"
MEASURED = "measured.json"
_MAX_REASON = 200
_ELAPSED = re.compile(r", \d+ s$")
"""The end of a live line."""


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    return dict(json.loads(path.read_text()))


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON object."""
    write_whole(path, json.dumps(values, indent=2) + "\n")


class RunFailedError(UserRuntimeError):
    """Why a run has no result, in one line."""


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended; the content of its result file."""

    values: dict[str, Any]  # measurements, JSON-ready
    seconds: float  # wall time of the call that finished the run
    settings: dict[str, Any] = field(default_factory=dict)  # of the ``Run``
    reason: str = ""  # why it failed


def module_command(module: str, folder: Path) -> tuple[str, ...]:
    """Return the command that runs a module on a folder."""
    return (sys.executable, "-m", module, str(folder))


def run_module(work: Callable[[Path], None]) -> None:
    """Do the work of a run in its own process; a user error ends it with one line."""
    end_with_experiment()
    try:
        with quiet_console():  # the last line of the output shows the progress
            work(Path(sys.argv[1]))
    except Exception as error:
        message = message_for_user(error)
        if message is None:
            raise
        sys.exit(message)


@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """Commands that run once and leave a result.

    ``commands`` run in order; they end when this process does, even if it is killed, and each
    resumes where it was stopped. The last one writes the file ``measures``, unless that is "".
    ``inputs`` are written to settings.json for the commands to read; a folder with others is first
    renamed to NAME.replaced-1. A result counts only if it was made with equal ``settings``.
    """

    name: str  # in lines of progress
    folder: Path
    commands: tuple[tuple[str, ...], ...]
    measures: str = MEASURED
    inputs: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def log_file(self) -> Path:
        """Output of the commands, in all attempts."""
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
        """Whether it was measured with these settings, here or as a task of Slurm."""
        return self.kept() is not None or (self.inputs is None and self.measured_file.is_file())

    def kept(self) -> RunOutcome | None:
        """Return the outcome of an earlier call; None if missing, damaged or of other settings."""
        found = self._earlier()
        return found if found and found.settings == self.settings else None

    def changed_settings(self) -> list[str]:
        """Return the names of the settings that an earlier result has with other values."""
        found = self._earlier()
        before = found.settings if found else self.settings
        names = {**before, **self.settings}
        return [name for name in names if before.get(name) != self.settings.get(name)]

    def _earlier(self) -> RunOutcome | None:
        try:
            return RunOutcome(**read_json(self.result_file))
        except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
            return None

    def keep(self, outcome: RunOutcome) -> None:
        """Write the result file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.result_file, asdict(outcome))

    def work(self, threads: int, gpus: str = "") -> dict[str, Any]:
        """Run the commands unless they have measured already, and return the result's values."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.inputs is not None:
            text = json.dumps(self.inputs, indent=2, sort_keys=True) + "\n"
            file = self.folder / SETTINGS
            if not (file.exists() and file.read_text() == text):
                self._set_aside()
                write_whole(file, text)
        if not self.measured_file.is_file():
            self.run_commands(threads, gpus)
        return self.read(read_json(self.measured_file)) if self.measures else {}

    def _set_aside(self) -> None:
        """Rename the folder, unless it is empty, and begin a new one: its weights took time."""
        if any(self.folder.iterdir()):
            names = (self.folder.with_name(f"{self.folder.name}.replaced-{n}") for n in count(1))
            self.folder.rename(next(name for name in names if not name.exists()))
            self.folder.mkdir()

    def run_commands(self, threads: int, gpus: str) -> None:
        """Run the commands in order, on ``gpus`` if given; a failure's reason is its last line."""
        env = {
            **IDLE_THREADS_YIELD,
            **os.environ,
            "OMP_NUM_THREADS": str(threads),
            CORES_VARIABLE: str(threads),
            EXPERIMENT_VARIABLE: str(os.getpid()),
        }
        if gpus:
            env["CUDA_VISIBLE_DEVICES"] = gpus
        for command in self.commands:
            start = self.log_file.stat().st_size if self.log_file.exists() else 0
            with self.log_file.open("a") as file:
                status = subprocess.run(
                    command,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                ).returncode
            if status:
                output = self.log_file.read_bytes()[start:].decode(errors="replace").splitlines()
                lines = [line.strip() for line in output if line.strip()] or ["no output"]
                reason = f"{lines[-1][:_MAX_REASON]} (exit code {status}, {self.log_file})"
                raise RunFailedError(reason)

    def read(self, measured: dict[str, Any]) -> dict[str, Any]:
        """Return the measurements that the tables need, or raise RunFailedError."""
        return measured

    def last_line(self) -> str:
        """Return the name and the last line of output."""
        end = b""
        if self.log_file.exists():
            with self.log_file.open("rb") as file:  # long, and read every second
                file.seek(-min(_MAX_REASON, self.log_file.stat().st_size), os.SEEK_END)
                end = file.read()
        lines = end.decode(errors="replace").splitlines() or ["starting"]
        # The time of the run's own live line would stand next to the time of this one.
        return f"{self.name}: {_ELAPSED.sub('', lines[-1])}"

    def summary(self, values: dict[str, Any]) -> str:
        """Return the result as it is in a line of progress."""
        return "done"

    def shell_line(self) -> str:
        """Return the commands as one line for a shell."""
        return " && ".join(shlex.join(command) for command in self.commands)
