"""The results of the demonstration as a table, and an answer to "how long is as long"."""

import statistics
from collections.abc import Sequence
from typing import Any

from ..console.tables import csv_table, markdown_table
from ..experiments.statistics import estimate
from .methods import METHODS, RANDOM, SSPRL

CAPTION = (
    "±: 95 % t-interval over the seeds. seconds: steps x the median time of a step, data and "
    "augmentation included; median over the seeds. `pretrain` trains SS-PRL's last form by "
    "itself. Other methods and tuned learning rates: `python -m mmssprl compare`."
)
_HEADS = ("pre-training", "epochs", "seconds", "mAP % per seed", "mAP %", "against random")

Values = dict[str, Any]
"""What ``train_and_probe`` returns."""


def format_table(results: Sequence[Values]) -> str:
    """Return the results as a Markdown table, mAP in percent as mean and interval over seeds."""
    chance = statistics.fmean(100 * r["mAP"] for r in results if r["method"] == RANDOM.title)
    rows = []
    for method in METHODS:
        runs = sorted((r for r in results if r["method"] == method.title), key=lambda r: r["seed"])
        scores = [100 * r["mAP"] for r in runs]
        found = estimate(scores)
        rows.append(
            [
                method.title,
                str(runs[0]["epochs"]),
                f"{statistics.median(r['seconds'] for r in runs):.0f}",
                " / ".join(f"{score:.1f}" for score in scores),
                found.text(),
                f"{found.mean - chance:+.1f}" if method.trains else "",
            ]
        )
    return markdown_table(_HEADS, rows)


def format_csv(results: Sequence[Values]) -> str:
    """Return a line per run."""
    ordered = sorted(results, key=lambda r: (r["method"], r["seed"]))
    return csv_table(list(ordered[0]), [list(r.values()) for r in ordered])


def epochs_in_equal_time(results: Sequence[Values]) -> int:
    """Return for how many epochs a method has to be trained to take as long as SS-PRL.

    Args:
        results: Runs of SS-PRL, whose median time counts, and of the method, for any number of
            epochs, of which the median step counts.
    """
    reference = [r for r in results if r["method"] == SSPRL.title]
    paced = [r for r in results if r["method"] != SSPRL.title]
    step_seconds = statistics.median(r["step_seconds"] for r in paced)
    steps_per_epoch = paced[0]["steps"] / paced[0]["epochs"]
    seconds = statistics.median(r["seconds"] for r in reference)
    return max(1, round(seconds / (step_seconds * steps_per_epoch)))
