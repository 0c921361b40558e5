"""Runs that are command lines, each a process of its own."""

import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..system.stopping import PARENT
from .gpus import environment_of_thread
from .run import Run, RunFailedError, RunOutcome

_MAX_REASON = 200


@dataclass(frozen=True, eq=False, kw_only=True)
class CommandRun(Run):
    """Commands, one after the other; they measure nothing themselves.

    Args:
        commands: Of this package, so that they end when this process does, however that ends. Each
            goes on where it was stopped.
    """

    commands: tuple[tuple[str, ...], ...]

    @property
    def log_file(self) -> Path:
        """What the commands print, of all attempts."""
        return self.folder / "run.log"

    def shell_line(self) -> str:
        """Return the commands as one line for a shell."""
        return " && ".join(shlex.join(command) for command in self.commands)

    def work(self, needed: Sequence[RunOutcome], threads: int) -> dict[str, Any]:
        """Run the commands, up to the first that fails.

        Raises:
            RunFailedError: With the last line of the command that failed.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        env = {**os.environ, "OMP_NUM_THREADS": str(threads), PARENT: str(os.getpid())}
        env |= environment_of_thread()
        for command in self.commands:
            start = self.log_file.stat().st_size if self.log_file.exists() else 0
            with self.log_file.open("a") as file:
                status = subprocess.run(
                    command,
                    env=env,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                ).returncode
            if status:
                said = _last_line(self.log_file, start)[:_MAX_REASON]
                raise RunFailedError(f"{said} (exit code {status}, {self.log_file})")
        return {}


def _last_line(path: Path, start: int) -> str:
    """Return the last line that a command has written to a log."""
    with path.open("rb") as file:
        file.seek(start)
        lines = file.read().decode(errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "no output")
