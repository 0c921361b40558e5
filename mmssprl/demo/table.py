"""The results of the demonstration as a table, a file, and an answer to "how long is as long"."""

import csv
import statistics
from pathlib import Path
from typing import Any

from .methods import METHODS, RANDOM

CAPTION = (
    "seconds: steps x the median time of a step, data and augmentation included; median over the "
    "seeds."
)


def format_table(results: list[dict[str, Any]]) -> str:
    """Return the results as a Markdown table, mAP in percent as mean and deviation over seeds."""
    head = ("pre-training", "epochs", "seconds", "mAP % per seed", "mAP %", "against random")
    rows = [head, tuple("---" for _ in head)]
    chance = statistics.mean(r["mAP"] for r in results if r["method"] == RANDOM.title)
    for method in METHODS:
        runs = sorted((r for r in results if r["method"] == method.title), key=lambda r: r["seed"])
        scores = [100 * r["mAP"] for r in runs]
        spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
        mean = statistics.mean(scores)
        rows.append(
            (
                method.title,
                str(runs[0]["epochs"]),
                f"{statistics.median(r['seconds'] for r in runs):.0f}",
                " / ".join(f"{score:.1f}" for score in scores),
                f"{mean:.1f} ± {spread:.1f}",
                f"{mean - 100 * chance:+.1f}" if method.trains else "",
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines[1] = "|" + "|".join("-" * (w + 2) for w in widths) + "|"
    return "\n".join(lines)


def write_csv(results: list[dict[str, Any]], path: Path) -> None:
    """Write a line per run."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(results[0]))
        writer.writeheader()
        writer.writerows(sorted(results, key=lambda r: (r["method"], r["seed"])))


def epochs_in_equal_time(reference: list[dict[str, Any]], paced: list[dict[str, Any]]) -> int:
    """Return how many epochs of ``paced`` take the time of ``reference``.

    Args:
        reference: Runs of one method, whose median time counts.
        paced: Runs of another one, of any number of epochs, of which the median step counts.
    """
    step_seconds = statistics.median(r["step_seconds"] for r in paced)
    steps_per_epoch = paced[0]["steps"] / paced[0]["epochs"]
    seconds = statistics.median(r["seconds"] for r in reference)
    return max(1, round(seconds / (step_seconds * steps_per_epoch)))
