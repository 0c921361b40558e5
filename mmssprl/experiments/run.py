"""A run: work that is done once, in a folder of its own, and leaves a result file."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import UserRuntimeError
from ..system.outputs import write_whole


class RunFailedError(UserRuntimeError):
    """Why a run has no result, in one line."""


def read_result(path: Path) -> dict[str, Any]:
    """Read the result file of a run: the fields of its ``RunOutcome``.

    Raises:
        RunFailedError: The file is damaged.
    """
    try:
        return dict(json.loads(path.read_text()))
    except ValueError as error:  # of JSON, or of its bytes
        raise RunFailedError(
            f"a result file must be JSON, but {path} is damaged ({error}); delete it, and the same "
            "command does the run again."
        ) from None


@dataclass(frozen=True)
class RunOutcome:
    """What became of a run.

    Args:
        values: What it measured, as JSON holds it.
        seconds: Wall time of the call that ended it, >= 0.
        settings: ``Run.settings`` of then.
        reason: Why it failed, and so has no values; empty if it is done.
    """

    values: dict[str, Any]
    seconds: float
    settings: dict[str, Any] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Run(ABC):
    """Work that is done once.

    Args:
        name: As in the lines of progress, such as ``linear-coco, random, seed 0``.
        kind: Runs of one kind are taken to last equally long.
        folder: Of all files of the run.
        needs: Runs whose outcomes the work takes.
        expected_s: What the work may take beside that of other runs; 0 where nothing is known.
    """

    name: str
    kind: str
    folder: Path
    needs: tuple["Run", ...] = ()
    expected_s: float = 0.0

    @abstractmethod
    def work(self, needed: Sequence[RunOutcome], threads: int) -> dict[str, Any]:
        """Do it with so many CPU threads, and return what it measured, as JSON holds it.

        Raises:
            RunFailedError: It gave no result.
        """

    def settings(self, needed: Sequence[RunOutcome]) -> dict[str, Any]:
        """Return, as JSON holds it, what a kept result must have been made with to count."""
        return {}

    def summary(self, values: dict[str, Any]) -> str:
        """Return what a line of progress tells of the result."""
        return "done"

    @property
    def result_file(self) -> Path:
        """Written last: its presence means that the run is complete."""
        return self.folder / "result.json"

    @property
    def is_complete(self) -> bool:
        """Whether its work would need no other run any more."""
        return self.result_file.exists()

    def keep(self, outcome: RunOutcome) -> None:
        """Write the result file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.result_file, json.dumps(asdict(outcome), indent=2) + "\n")

    def kept(self, settings: dict[str, Any]) -> RunOutcome | None:
        """Return what an earlier call has left; None if that is nothing or made otherwise."""
        if not self.result_file.exists():
            return None
        content = read_result(self.result_file)
        return RunOutcome(**content) if content.get("settings") == settings else None
