"""Runs of the comparison, each a process of its own, and what a pre-training has measured."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..run import Run


@dataclass(frozen=True, eq=False, kw_only=True)
class PretrainRun(Run):
    """A pre-training of one method with one seed, and its probe."""

    def summary(self, values: dict[str, Any]) -> str:
        """Return the score, and a mark if it has collapsed."""
        mark = " (collapsed)" if values.get("collapsed") else ""
        return f"mAP {100 * values['mAP']:.1f} %{mark}"


def module_command(module: str, folder: Path) -> tuple[str, ...]:
    """Return the command that runs a module of this package on a folder."""
    return (sys.executable, "-m", f"{__package__}.{module}", str(folder))


@dataclass(frozen=True)
class PretrainResult:
    """What one run has measured.

    mAP is in [0, 1]; ``seconds`` are those of the pre-training, of the process on a CPU, else of
    the device; ``peak_mib`` is resident on a CPU, else allocated on the device; ``loss`` and
    ``embedding_spread`` (``meter.SPREAD``) are means over the last epoch.
    """

    method: str
    seed: int
    epochs: int
    lr_factor: float
    mAP: float  # noqa: N815
    chance_mAP: float  # noqa: N815
    steps: int = 0
    images: int = 0
    seconds: float = 0.0
    peak_mib: int | None = None
    loss: float | None = None
    embedding_spread: float | None = None
    collapsed: bool = False
    commit: str = ""
