"""Make what_to_do.md, the table that README shows too, from the CSV files of the results.

    python docs/results/distillation/what_to_do.py

A row appears once its runs on the test images are in the CSV file: Lite0's are rows `frozen`
and `anchored` of results.csv, the others are in deployed/.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

from mmssprl.console.tables import markdown_table
from mmssprl.experiments.statistics import estimate

HERE = Path(__file__).parent
OWN = HERE / "results.csv"
TUNED = HERE.parent / "deployed" / "results.csv"
SHARES = ("10 %", "100 %")
COLUMNS = (
    *("network", "start", "fine-tuned, 10 % of the labels", "fine-tuned, all", "linear"),
    *("seeds", "epochs", "CPU min", "made by", "on your photographs"),
)


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    title: str
    network: str  # that is scored
    made_by: str  # command
    yours: str  # command that does the same on a user's photographs
    file: Path
    key: dict[str, str]  # values that name its runs in the file
    tuned: dict[str, str]  # the same in TUNED; empty if it has none

    def cells(self) -> list[str]:
        """Return the texts of the line, none if there are no runs yet."""
        runs = rows_with(self.file, self.key)
        if not runs:
            return []

        scores = [float(run["mAP"]) for run in runs]
        [epochs] = {run["epochs"] for run in runs}
        spent_in = "pretraining_s" if self.file == TUNED else "seconds"
        seconds = [float(run[spent_in]) for run in runs]
        spent = f"{min(seconds) / 60:.0f}" if max(seconds) else ""
        commands = [f"`{typed}`" if typed else "" for typed in (self.made_by, self.yours)]
        mean = estimate(scores).text()
        linear = [mean, str(len(runs)), epochs, spent]
        return [self.network, self.title, *self.tuned_cells(), *linear, *commands]

    def tuned_cells(self) -> list[str]:
        """Return the mAP after fine-tuning with each share of the labels, with its seeds."""
        cells = []
        for share in SHARES:
            runs = rows_with(TUNED, {**self.tuned, "measure": share}) if self.tuned else []
            scores = [float(run["mAP"]) for run in runs]
            cells.append(f"{estimate(scores).text()} ({len(scores)})" if scores else "")
        return cells


def rows_with(file: Path, key: dict[str, str]) -> list[dict[str, str]]:
    """Return the rows of a CSV file with these values."""
    with file.open(newline="") as opened:
        return [run for run in csv.DictReader(opened) if key.items() <= run.items()]


def of_deployed(network: str, row: str) -> Row:
    """Return a row of deployed/."""
    name, backbone = NETWORKS[network]
    title, options = STARTS[row]
    key = {"network": network, "row": row}
    made_by = f"deployed/runs.py --networks {network}"
    yours = "" if row == "random" else f"mmssprl pretrain photos/{backbone}{options}"
    return Row(title, name, made_by, yours, TUNED, {**key, "measure": "linear"}, key)


def of_lite0(title: str, row: str, yours: str, tuned: str) -> Row:
    """Return a row of rows.yaml of Lite0, and its name in deployed/."""
    key = {"split": "test", "row": row}
    made_by = f"mmssprl compare --methods rows.yaml:{row}"
    of_tuned = {"network": "lite0", "row": tuned} if tuned else {}
    return Row(title, "Lite0", made_by, yours, OWN, key, of_tuned)


NETWORKS = {
    "resnet18": ("ResNet-18", " --backbone resnet18"),
    "mobilenetv3": ("MobileNetV3-small", " --backbone timm/mobilenetv3_small_100"),
    "narrow": ("narrow ResNet-18", ""),
}
"""Names, and the options of `pretrain`."""
_TAUGHT = ("a teacher's released weights", " --teacher timm/NAME")
STARTS = {
    "random": ("random weights", ""),
    "swav-small": ("from scratch", ""),
    "distill": _TAUGHT,
    "cells": _TAUGHT,
}
ROWS = (
    of_deployed("resnet18", "random"),
    of_deployed("resnet18", "swav-small"),
    of_deployed("resnet18", "distill"),
    of_deployed("mobilenetv3", "random"),
    of_deployed("mobilenetv3", "swav-small"),
    of_deployed("mobilenetv3", "distill"),
    of_deployed("narrow", "random"),
    of_deployed("narrow", "swav-small"),
    of_deployed("narrow", "cells"),
    of_lite0("released weights", "frozen", "mmssprl embed timm/NAME photos/ photos.npz", "start"),
    of_lite0(
        "released weights, continued",
        "anchored",
        "mmssprl pretrain photos/ --weights timm/NAME",
        "anchored",
    ),
)


def table() -> str:
    """Return the table in Markdown, without rows that have no runs yet."""
    lines = [row.cells() for row in ROWS]
    return markdown_table(COLUMNS, [line for line in lines if line], num_left=2) + "\n"


if __name__ == "__main__":
    (HERE / "what_to_do.md").write_text(table())
