"""One run of the benchmark: a training in one protocol, and the test of what it ends with."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..run import Run, RunFailedError, RunOutcome, read_result
from .protocols import METRICS, Protocol


@dataclass(frozen=True)
class TransferResult:
    """One run: one protocol with one backbone and one seed.

    ``metrics`` are percent by metric; what could not be measured is left out. ``seconds`` are those
    of the call that finished it, about 0 if it only collected it.
    """

    protocol: str
    weights: str
    seed: int
    metrics: dict[str, float]
    seconds: float
    status: Literal["done", "failed", "skipped"]
    reason: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class TransferRun(Run):
    """Training and test, in this order, with a config that was written for this run."""

    measures: str = "metrics.json"
    protocol: Protocol
    weights: str
    seed: int
    config: Path

    def read(self, measured: dict[str, Any]) -> dict[str, Any]:
        """Return the metrics of the tables in percent."""
        metrics = self.protocol.read_metrics(measured)
        if not metrics:
            self.measured_file.unlink()  # the next call tests again
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


def find_results(work_dir: Path, planned: Sequence[TransferResult]) -> list[TransferResult]:
    """Return what earlier calls have completed in a work dir beside the runs of this one."""
    known = {(result.protocol, result.weights, result.seed) for result in planned}
    found = []
    for path in sorted(work_dir.glob("runs/*/*/seed*/result.json")):
        *_, weights, protocol, seed, _ = path.parts
        kept = read_result(path)
        run = (protocol, weights, int(seed.removeprefix("seed")))
        if run not in known:
            found.append(TransferResult(*run, kept.values, kept.seconds, "done"))
    return found
