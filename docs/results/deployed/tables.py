"""Make the tables of this page and differences.csv from results.csv and dense.csv.

    python docs/results/deployed/tables.py [FOLDER]

With FOLDER, the work dir of runs.py, its results.csv and dense.csv are copied here first.
"""

import csv
import shutil
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmssprl.console.tables import csv_table, markdown_table
from mmssprl.experiments.statistics import LEVEL, estimate, holm, welch

HERE = Path(__file__).parent
RESULTS, DENSE = "results.csv", "dense.csv"
DRAWS = 10_000
ENDS = (LEVEL / 2, 1 - LEVEL / 2)  # quantiles of the draws
Key = tuple[str, str]  # network and row
TITLES: dict[Key, str] = {
    ("narrow", "random"): "narrow ResNet-18: random weights",
    ("narrow", "swav-small"): "narrow ResNet-18: SwAV, six small views",
    ("narrow", "pooled"): "narrow ResNet-18: distilled, image views",
    ("narrow", "cells"): "narrow ResNet-18: distilled, image views and cells",
    ("lite0", "start"): "Lite0: ImageNet's labels",
    ("lite0", "anchored"): "Lite0: the same, continued",
    ("resnet18", "random"): "ResNet-18: random weights",
    ("resnet18", "swav-small"): "ResNet-18: SwAV, six small views",
    ("resnet18", "distill"): "ResNet-18: distilled",
    ("mobilenetv3", "random"): "MobileNetV3-small: random weights",
    ("mobilenetv3", "swav-small"): "MobileNetV3-small: SwAV, six small views",
    ("mobilenetv3", "distill"): "MobileNetV3-small: distilled",
}
TUNED = (
    (("narrow", "cells"), ("narrow", "swav-small")),
    (("narrow", "cells"), ("narrow", "pooled")),
    (("narrow", "pooled"), ("narrow", "swav-small")),
    (("narrow", "swav-small"), ("narrow", "random")),
    (("lite0", "anchored"), ("lite0", "start")),
)
DEPLOYED = (
    (("resnet18", "distill"), ("resnet18", "swav-small")),
    (("resnet18", "swav-small"), ("resnet18", "random")),
    (("mobilenetv3", "distill"), ("mobilenetv3", "swav-small")),
    (("mobilenetv3", "swav-small"), ("mobilenetv3", "random")),
)
MAPS = (TUNED[1], TUNED[0], TUNED[3])
"""The differences of each family: a row and its reference."""
QUESTIONS = ("foreground", "five classes")
NO_LINES = "No run is complete yet."
COLUMNS = {"linear": "linear", "10 %": "fine-tuned, 10 % of the labels", "100 %": "fine-tuned, all"}


class Difference(NamedTuple):
    """A row against its reference by one measure; ``p`` is None as long as seeds are missing."""

    row: Key
    reference: Key
    measure: str
    seeds: str
    points: float
    low: float | None
    high: float | None
    p: float | None


class Family(NamedTuple):
    """Differences that are corrected together."""

    name: str
    pairs: Sequence[tuple[Key, Key]]
    measures: Sequence[str]
    seeds: int
    images: str  # as in docs/results.md


FAMILIES = {
    "tuned": Family("A", TUNED, ("10 %", "100 %"), 5, "test"),
    "deployed": Family("B", DEPLOYED, ("10 %", "linear"), 3, "test"),
    "dense": Family("C", MAPS, QUESTIONS, 5, "voc128"),
}


def read(file: str) -> list[dict[str, str]]:
    """Read a CSV file of this page."""
    with (HERE / file).open(newline="") as opened:
        return [*csv.DictReader(opened)]


def scores_of(runs: list[dict[str, str]]) -> dict[tuple[Key, str], list[float]]:
    """Return the mAP of each seed by row and measure."""
    found = defaultdict(list)
    for run in runs:
        found[(run["network"], run["row"]), run["measure"]].append(float(run["mAP"]))
    return dict(found)


def maps_of(lines: list[dict[str, str]]) -> dict[tuple[Key, str], NDArray[np.float64]]:
    """Return the IoU (seeds, images) by row and question."""
    found = defaultdict(list)
    for line in lines:
        found[("narrow", line["row"]), line["question"]].append(line["per_image"].split())
    return {key: np.array(values, float) for key, values in found.items()}


def draw_means(ious: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Return the mean IoU of each draw of images, the same for all rows, and of the row's seeds."""
    num_seeds, num_images = ious.shape
    shares = np.full(num_images, 1 / num_images)
    counts = np.random.default_rng(0).multinomial(num_images, shares, DRAWS)
    by_seed = counts @ ious.T / num_images  # (DRAWS, seeds)
    chosen = np.random.default_rng((1, seed)).integers(num_seeds, size=by_seed.shape)
    return np.take_along_axis(by_seed, chosen, axis=1).mean(axis=1)


def bootstrap(own: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the ends of the interval of own - other, and the two-sided p."""
    draws = draw_means(own, 0) - draw_means(other, 1)
    side = min(int((draws <= 0).sum()), int((draws >= 0).sum()))
    p = min(1.0, 2 * (side + 1) / (DRAWS + 1))
    low, high = np.quantile(draws, ENDS)
    return float(low), float(high), p


def differences(family: Family, scores: dict) -> list[Difference]:
    """Return the differences of a family that have scores on both sides."""
    found = []
    for row, reference in family.pairs:
        for measure in family.measures:
            own, other = scores.get((row, measure)), scores.get((reference, measure))
            if own is None or other is None:
                continue
            seeds = f"{len(own)}, {len(other)}"
            if isinstance(own, np.ndarray):
                points = float(own.mean() - other.mean())
                *ends, p = bootstrap(own, other)
            else:
                gap, p = welch(own, other)
                points = gap.mean
                ends = gap.interval or (None, None)
            kept = p if len(own) == len(other) == family.seeds else None
            found.append(Difference(row, reference, measure, seeds, points, *ends, kept))
    return found


def adjusted(family: Family, found: list[Difference]) -> list[float | None]:
    """Return Holm's p of each difference, None for all until the family is complete."""
    values = [each.p for each in found if each.p is not None]
    if len(values) < len(family.pairs) * len(family.measures):
        return [None] * len(found)
    return [*holm(values)]


def verdict(each: Difference, p: float | None) -> str:
    """Return 'better' or 'worse' if a difference counts."""
    if p is None or p >= LEVEL:
        return ""
    return "better" if each.points > 0 else "worse"


def difference_table(family: Family, found: list[Difference]) -> str:
    """Return a family's differences in Markdown."""
    lines = []
    for each, p in zip(found, adjusted(family, found), strict=True):
        title = f"{TITLES[each.row]} - {TITLES[each.reference].partition(': ')[2]}"
        ends = "" if each.low is None else f"{each.low:+.1f} to {each.high:+.1f}"
        p_text = "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
        points = f"{round(each.points, 1) + 0.0:+.1f}"
        lines.append([title, each.measure, each.seeds, points, ends, p_text, verdict(each, p)])
    heads = ("difference", "measure", "seeds", "points", "95 % interval", "p (Holm)", "")
    return markdown_table(heads, lines, num_left=2) if lines else NO_LINES


def difference_lines(family: Family, found: list[Difference]) -> list[list]:
    """Return a line of differences.csv for each planned difference, empty without its scores."""
    by_name = {}
    for each, p in zip(found, adjusted(family, found), strict=True):
        by_name[each.row, each.reference, each.measure] = [*each[3:], p, verdict(each, p)]

    lines = []
    empty = [None] * (len(Difference._fields) - 1)
    for row, reference in family.pairs:
        for measure in family.measures:
            name = (" ".join(row), " ".join(reference), measure)
            values = by_name.get((row, reference, measure), empty)
            lines.append([family.name, family.images, *name, *values])
    return lines


def score_table(rows: Sequence[Key], measures: Sequence[str], runs: list[dict[str, str]]) -> str:
    """Return the mean score of each row with its interval over the seeds."""
    scores = scores_of(runs)
    lines = []
    for key in rows:
        own = [run for run in runs if (run["network"], run["row"]) == key]
        if not own:
            continue
        spent = [float(run["pretraining_s"]) / 60 for run in own]
        cells = []
        for name in measures:
            values = scores.get((key, name), [])
            cells.append(f"{estimate(values).text()} ({len(values)})" if values else "")
        lines.append([TITLES[key], own[0]["epochs"], f"{min(spent):.0f}", *cells])
    heads = ["weights", "epochs", "CPU min of the fastest", *map(COLUMNS.__getitem__, measures)]
    return markdown_table(heads, lines) if lines else NO_LINES


def map_table(lines: list[dict[str, str]]) -> str:
    """Return the mean IoU of each row with its interval, and the mean IoU of a constant."""
    found = maps_of(lines)
    rows = []
    for key in TITLES:
        own = [found[key, name] for name in QUESTIONS if (key, name) in found]
        if not own:
            continue
        cells = []
        for ious in own:
            low, high = np.quantile(draw_means(ious, 0), ENDS)
            cells.append(f"{ious.mean():.1f} ({low:.1f} to {high:.1f})")
        rows.append([TITLES[key], str(len(own[0])), *cells])
    if not rows:
        return NO_LINES
    constant = []
    for name in QUESTIONS:
        score = fmean(float(line["constant"]) for line in lines if line["question"] == name)
        constant.append(f"{score:.1f}")
    rows.append(["the most frequent class everywhere", "", *constant])
    heads = ("feature map of", "seeds", "foreground or background", "five classes or the rest")
    return markdown_table(heads, rows)


def tables() -> dict[str, str]:
    """Return the content of each file that is made."""
    runs, dense = read(RESULTS), read(DENSE)
    scores, maps = scores_of(runs), maps_of(dense)
    shown = {
        "tuned": score_table([*TITLES][:6], ("linear", "10 %", "100 %"), runs),
        "deployed": score_table([*TITLES][6:], ("linear", "10 %"), runs),
        "dense": map_table(dense),
    }
    made = {}
    all_lines = []
    for name, family in FAMILIES.items():
        found = differences(family, maps if name == "dense" else scores)
        made[f"{name}.md"] = f"{shown[name]}\n\n{difference_table(family, found)}\n"
        all_lines += difference_lines(family, found)
    heads = ("family", "images", "row", "reference", *Difference._fields[2:], "p_holm", "verdict")
    made["differences.csv"] = csv_table(heads, all_lines)
    return made


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        for file in (RESULTS, DENSE):
            shutil.copy(Path(folder) / file, HERE / file)
    for file, text in tables().items():
        (HERE / file).write_text(text)
