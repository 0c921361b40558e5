"""Probes of a pre-training: ``probe.csv``, their text, and intervals of changes.

Legend: N images, C features, K classes, D draws of a bootstrap.
"""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mmengine.config import Config

from ..config.hooks import find_hook
from ..console.tables import csv_table
from ..console.wording import ALONE, percent
from ..errors import refuse_damaged
from ..system.outputs import write_whole
from ..weights import RANDOM, SUPERVISED, Source, timm_network, with_network

START = "start"  # weights of a file
TRAINED = "trained"
LOST = "lost"
"""Trained weights that are in no file: later ones, dropped by a resumed run, took their place."""
_NAMES = {START: "before the training", RANDOM: "random weights", SUPERVISED: "supervised"}


class Probe(NamedTuple):
    """One line of ``probe.csv``.

    Attributes:
        epoch: Epochs done; 0 before the training.
        linear_mAP: In [0, 1]; None without labels.
        weights: TRAINED or LOST after an epoch; before the training START, RANDOM or SUPERVISED.
            The first line has the initial weights, other lines of epoch 0 are for comparison.
        mIoU: Of a dense probe in [0, 1], if the images have masks.
        other_half: Without labels: share of images where the left half is nearest to its right one.
        interval: Half a 95 % interval of the gain in ``score`` over the start; None of the start.
    """

    epoch: int = 0
    linear_mAP: float | None = None  # noqa: N815
    weights: str = TRAINED
    mIoU: float | None = None  # noqa: N815
    other_half: float | None = None
    interval: float | None = None

    @property
    def score(self) -> float:
        """The score that weights are chosen by, in [0, 1]: linear mAP or ``other_half``."""
        return (self.linear_mAP if self.other_half is None else self.other_half) or 0.0

    @property
    def measure(self) -> str:
        """The name of the score."""
        return "linear mAP" if self.other_half is None else "other halves found"


def read_probes(path: Path) -> list[Probe]:
    """Read ``probe.csv``; a missing file has no probes."""
    if not path.exists():
        return []
    probes = []
    remedy = "move it elsewhere and resume the run"
    with refuse_damaged(path, "the probes of a run", remedy), path.open(newline="") as file:
        for row in csv.DictReader(file):
            epoch = int(row.pop("epoch"))
            weights = row.pop("weights")
            # Files of version 0.2 also have seconds, nearest neighbours and RankMe.
            names = row.keys() & {*Probe._fields}
            numbers: dict[str, Any] = {name: float(row[name]) for name in names if row[name]}
            probes.append(Probe(epoch=epoch, weights=weights, **numbers))
    return probes


def write_probes(path: Path, probes: Sequence[Probe]) -> None:
    """Write ``probe.csv`` with the columns that any probe has."""
    columns = dict(zip(Probe._fields, zip(*probes, strict=True), strict=True))
    kept = {name: column for name, column in columns.items() if set(column) != {None}}
    write_whole(path, csv_table([*kept], [*zip(*kept.values(), strict=True)]))


def of_the_run(probes: Sequence[Probe]) -> list[Probe]:
    """Return the probes of the run's initial and trained weights."""
    return [probe for i, probe in enumerate(probes) if probe.epoch or i == 0]


def ends_of(probes: Sequence[Probe]) -> tuple[Probe, Probe]:
    """Return the first and the last of ``of_the_run``, or empty probes."""
    own = of_the_run(probes) or [Probe()]
    return own[0], own[-1]


def best_of(probes: Sequence[Probe]) -> Probe | None:
    """Return the probe of trained weights with the highest score, without LOST ones."""
    kept = [probe for probe in probes if probe.epoch and probe.weights != LOST]
    return max(kept, key=lambda probe: probe.score, default=None)


WORSE_THAN_RANDOM = (
    "the features are clearly worse than the random ones of the start: do not use them; "
    "lower lr (--lr of `pretrain`), or train longer"
)


class Proposal(NamedTuple):
    """The weights to use after a run.

    Attributes:
        weights: WEIGHTS; None if all of the run's are clearly worse than a start that was random.
        is_worth: Whether they are worth more work: better than the start, unless nothing is known.
    """

    weights: str | None
    is_worth: bool


def propose(weights: Path, cfg: Config) -> Proposal:
    """Return the weights to use after the run of a config that wrote ``weights``.

    These are the last ones, if they are better than the start by more than the interval or have no
    interval; else the best probe's, if they are better by more than its interval; else the start,
    if the last ones are clearly worse.
    """
    probes = read_probes(weights.with_name("probe.csv"))
    first, last = ends_of(probes)
    if last.interval is None or last.score - last.interval > first.score:
        return Proposal(str(weights), is_worth=True)

    best = best_of(probes)
    if best and best.interval is not None and best.score - best.interval > first.score:
        name = f"{Path(cfg.filename).stem}_best_backbone.pth"  # as ``backbone_file``
        return Proposal(str(weights.with_name(name)), is_worth=True)

    if last.score + last.interval < first.score:
        start = trained_start(cfg)
        return Proposal(start, is_worth=start is not None)
    return Proposal(str(weights), is_worth=False)


def trained_start(cfg: Config) -> str | None:
    """Return the trained weights that a run started from, as WEIGHTS; None for random ones."""
    weights = cfg.get("weights")
    backbone = cfg.model.backbone
    if not Source.of(weights).is_random:
        network = timm_network(backbone.model_name) if "model_name" in backbone else ""
        return with_network(str(weights), network)
    is_continued = find_hook(cfg, "ContinuationHook") is not None
    return backbone.get("network") if is_continued else None


def probe_line(probes: Sequence[Probe]) -> str:
    """Describe the last probe and the probes before the training."""
    last = probes[-1]
    what = f"after epoch {last.epoch}"
    if last.epoch == 0:
        what = "before the training" if len(probes) == 1 else f"of {name_of(last)}"
    line = f"Probe {what}: {_scores(last, named=True)}"
    before = [f"{_NAMES[p.weights]} {_scores(p)}" for p in probes if p.epoch == 0]
    return "; ".join([line, *before, describe_gain(probes, last)]) if last.epoch else line


def _scores(probe: Probe, *, named: bool = False) -> str:
    shares = {"linear mAP ": probe.linear_mAP, "mIoU ": probe.mIoU, "other half ": probe.other_half}
    found = {name: percent(value) for name, value in shares.items() if value is not None}
    return ", ".join(f"{name if named else ''}{text}" for name, text in found.items())


def describe_gain(probes: Sequence[Probe], probe: Probe) -> str:
    """Describe whether a probe is better than, worse than or level with the start."""
    if probe.interval is None:
        return ALONE
    gain = probe.score - probes[0].score
    points = f"{100 * gain:+.1f} ± {100 * probe.interval:.1f} points"
    if abs(gain) <= probe.interval:
        return f"level with its start: {points}"
    word = "better" if gain > 0 else "worse"
    return f"{word} than its start by {points}"


def name_of(probe: Probe) -> str:
    """Return the name of the weights of a probe, such as 'supervised weights'."""
    return f"{probe.weights} weights"
