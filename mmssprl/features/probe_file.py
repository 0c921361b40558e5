"""What the probes of a pre-training found: the lines of its ``probe.csv``, and in words."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..console.tables import csv_table
from ..console.wording import percent
from ..system.outputs import write_whole
from ..weights import RANDOM, SUPERVISED

START = "start"
"""Weights of a file that the training starts from."""
TRAINED = "trained"
_NAMES = {START: "before the training", RANDOM: "random weights", SUPERVISED: "supervised"}


class Probe(NamedTuple):
    """One line of ``probe.csv``.

    Attributes:
        epoch: The epoch after which it was made, 0 being before the training.
        linear_mAP, knn_mAP: Scores in [0, 1].
        seconds: Time that it took.
        weights: TRAINED after an epoch; before the training START, RANDOM or SUPERVISED. The first
            line is of those that the training starts from, others of epoch 0 are for comparison.
        mIoU: That of a dense probe in [0, 1], if it was asked for.
    """

    epoch: int
    linear_mAP: float  # noqa: N815
    knn_mAP: float  # noqa: N815
    seconds: float
    weights: str
    mIoU: float | None = None  # noqa: N815


def read_probes(path: Path) -> list[Probe]:
    """Return the probes of a run's ``probe.csv``; none if there is no such file."""
    if not path.exists():
        return []
    probes = []
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            linear, knn, seconds = (float(row[name]) for name in Probe._fields[1:4])
            # The first runs name no weights.
            weights = row.get("weights") or (START if row["epoch"] == "0" else TRAINED)
            regions = float(row["mIoU"]) if row.get("mIoU") else None
            probes.append(Probe(int(row["epoch"]), linear, knn, seconds, weights, regions))
    return probes


def write_probes(path: Path, probes: Sequence[Probe]) -> None:
    """Write what ``read_probes`` reads; the column mIoU is there if a probe has one."""
    num = len(Probe._fields) - all(probe.mIoU is None for probe in probes)
    write_whole(path, csv_table(Probe._fields[:num], [probe[:num] for probe in probes]))


def of_the_run(probes: Sequence[Probe]) -> list[Probe]:
    """Return the probes of the run's own weights: those it starts from, and those it trained."""
    start = [probe for probe in probes if probe.epoch == 0][:1]
    return [*start, *(probe for probe in probes if probe.epoch)]


def for_comparison(probes: Sequence[Probe]) -> list[Probe]:
    """Return the probes of weights that the run neither starts from nor trains."""
    return [probe for probe in probes if probe.epoch == 0][1:]


def best_of(probes: Sequence[Probe]) -> Probe:
    """Return the probe with the highest linear mAP, of the trained weights if there is one."""
    own = of_the_run(probes)
    trained = [probe for probe in own if probe.epoch]
    return max(trained or own, key=lambda probe: probe.linear_mAP)


def describe(probes: Sequence[Probe]) -> str:
    """Return the last of the probes, at least one, beside those before the training."""
    last = probes[-1]
    scores = f"linear mAP {percent(last.linear_mAP)}, kNN {percent(last.knn_mAP)}"
    if last.mIoU is not None:
        scores += f", mIoU {percent(last.mIoU)}"
    if last.epoch == 0:
        what = "before the training" if len(probes) == 1 else f"of {name_of(last)}"
        return f"Probe {what}: {scores} ({last.seconds:.0f} s)"
    head = f"Probe after epoch {last.epoch}: {scores}"
    before = [probe for probe in probes if probe.epoch == 0]
    both = [
        f"{_NAMES[p.weights]} {', '.join(percent(x) for x in (*p[1:3], p.mIoU) if x is not None)}"
        for p in before
    ]
    return f"{'; '.join([head, *both])} ({last.seconds:.0f} s)"


def describe_best(probes: Sequence[Probe], file: str) -> str:
    """Say which weights a run keeps in a file as its best, beside those before the training."""
    best = best_of(probes)
    before = [f"{_NAMES[p.weights]} {percent(p.linear_mAP)}" for p in probes if p.epoch == 0]
    scores = "; ".join([f"linear mAP {percent(best.linear_mAP)}", *before])
    return f"best probe: after epoch {best.epoch}, {scores}; its weights: {file}"


def name_of(probe: Probe) -> str:
    """Return the weights of a probe before the training in words: 'supervised weights'."""
    return f"{probe.weights} weights"
