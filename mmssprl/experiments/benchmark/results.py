"""What runs of the benchmark have measured, and what the seeds say together.

Every metric is in percent, and higher is better.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..run import read_result
from ..statistics import Estimate, estimate, welch

Size = Literal["paper", "scenes", "coco128"]
"""Of the data: the paper's own, the generated scenes, or 100 + 100 photographs."""

Status = Literal["done", "failed", "skipped"]

Key = tuple[str, str, str]
"""Weights, protocol and metric: one number of the table."""

METRICS: dict[str, tuple[str, ...]] = {
    "linear-coco": ("mAP",),
    "linear-voc": ("mAP",),
    "semisup-1": ("mAP",),
    "semisup-10": ("mAP",),
    "semisup-100": ("mAP",),
    "detection": ("AP", "AP50", "AP75", "mask_AP", "mask_AP50", "mask_AP75"),
    "segmentation": ("mIoU",),
}
"""The metrics of each protocol, both in the order of the tables."""

BASELINE = "random"
_FIRST = (BASELINE, "supervised")


@dataclass(frozen=True)
class TransferResult:
    """One run: one protocol with one backbone and one seed.

    Args:
        protocol: A key of ``METRICS``.
        weights: Name of the backbone in tables, such as ``random`` or ``supervised``.
        seed: Seed of the transfer run, >= 0.
        metrics: Percent in [0, 100] by metric; what could not be measured is left out. At least
            one if the run is done, none if it is not.
        seconds: Wall time of the call that finished it, >= 0; about 0 if it only collected it.
        status: What became of the run.
        reason: Why it failed or was skipped.
    """

    protocol: str
    weights: str
    seed: int
    metrics: dict[str, float]
    seconds: float
    status: Status
    reason: str = ""


def find_results(work_dir: Path, planned: Sequence[TransferResult]) -> list[TransferResult]:
    """Return what earlier calls have completed in a work dir beside the runs of this one."""
    known = {(result.protocol, result.weights, result.seed) for result in planned}
    found = []
    for path in sorted(work_dir.glob("runs/*/*/seed*/result.json")):
        *_, weights, protocol, seed, _ = path.parts
        kept = read_result(path)
        run = (protocol, weights, int(seed.removeprefix("seed")))
        if run not in known:
            found.append(TransferResult(*run, kept["values"], kept["seconds"], "done"))
    return found


def aggregate(results: Sequence[TransferResult]) -> dict[Key, Estimate]:
    """Summarise the done runs over their seeds."""
    return {key: estimate(list(by_seed.values())) for key, by_seed in _by_seed(results).items()}


def against_baseline(results: Sequence[TransferResult]) -> dict[Key, Estimate]:
    """Summarise the differences to ``random``, where both have a seed."""
    values = _by_seed(results)
    differences = {}
    for (weights, protocol, metric), by_seed in values.items():
        base = values.get((BASELINE, protocol, metric), {})
        if base and weights != BASELINE:
            found, _ = welch([*by_seed.values()], [*base.values()])
            differences[weights, protocol, metric] = found
    return differences


def order_weights(results: Sequence[TransferResult]) -> list[str]:
    """Return the names of the rows: random, supervised, then the others as they come."""
    names = dict.fromkeys(result.weights for result in results)
    return sorted(names, key=(*_FIRST, *names).index)


def order_protocols(results: Sequence[TransferResult]) -> list[str]:
    """Return the protocols that the results are about, in the order of the tables."""
    return [p for p in METRICS if any(result.protocol == p for result in results)]


def _by_seed(results: Sequence[TransferResult]) -> dict[Key, dict[int, float]]:
    values: dict[Key, dict[int, float]] = {}
    for result in results:
        for metric, value in result.metrics.items():
            values.setdefault((result.weights, result.protocol, metric), {})[result.seed] = value
    return values
