"""One run of the benchmark: a training in one protocol, and the test of what it ends with."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..commands import CommandRun
from ..run import RunFailedError, RunOutcome
from .protocols import Protocol
from .results import METRICS, TransferResult


@dataclass(frozen=True, eq=False, kw_only=True)
class TransferRun(CommandRun):
    """Training and test, in this order.

    Args:
        protocol: What is trained and measured.
        weights: Name of the weights it starts from.
        seed: Of the training.
        config: Written for this run.
    """

    protocol: Protocol
    weights: str
    seed: int
    config: Path

    @property
    def metrics_file(self) -> Path:
        """Written by the test."""
        return self.folder / "metrics.json"

    @property
    def is_complete(self) -> bool:
        """Whether the test has ended, here or as a task of Slurm."""
        return super().is_complete or self.metrics_file.exists()

    def work(self, needed: Sequence[RunOutcome], threads: int) -> dict[str, Any]:
        """Train and test, and return the metrics of the tables in percent.

        Raises:
            RunFailedError: A command failed, or the test measured something else.
        """
        if not self.metrics_file.exists():
            super().work(needed, threads)
        metrics = self.protocol.read_metrics(json.loads(self.metrics_file.read_text()))
        if not metrics:
            self.metrics_file.unlink()  # the next call tests again
            raise RunFailedError("the test gave none of the protocol's metrics")
        return metrics

    def summary(self, values: dict[str, Any]) -> str:
        """Return the protocol's main metric."""
        main = METRICS[self.protocol.name][0]
        return f"{main} {values[main]:.1f} %" if main in values else "done"

    def result(self, outcome: RunOutcome) -> TransferResult:
        """Return an outcome of this run as the tables take it."""
        return TransferResult(
            self.protocol.name,
            self.weights,
            self.seed,
            outcome.values,
            outcome.seconds,
            "failed" if outcome.reason else "done",
            outcome.reason,
        )
