"""Make what_to_do.md, the table that README shows too, from the CSV files of the results.

    python docs/results/distillation/what_to_do.py

A row appears once its runs on the test images are in the CSV file: frozen and continued weights are
rows `frozen`, `frozen-224px` and `anchored` of results.csv.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

from mmssprl.console.tables import markdown_table
from mmssprl.experiments.statistics import estimate

HERE = Path(__file__).parent
PHOTOS = HERE.parent / "photos" / "results.csv"
OWN = HERE / "results.csv"
TUNED = HERE.parent / "deployed" / "results.csv"
SHARES = ("10 %", "100 %")
COLUMNS = (
    *("start", "network", "fine-tuned, 10 % of the labels", "fine-tuned, all", "linear"),
    *("seeds", "epochs", "CPU s", "made by", "on your photographs"),
)
NARROW = "narrow ResNet-18"


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    title: str
    network: str  # that is scored
    made_by: str  # mmssprl's command
    yours: str  # command that does the same on a user's photographs
    file: Path
    key: dict[str, str]  # values that name its runs in the file
    tuned: dict[str, str]  # the same in TUNED; empty if it has none

    def cells(self) -> list[str]:
        """Return the texts of the line, none if there are no runs yet."""
        runs = rows_with(self.file, self.key)
        if not runs:
            return []

        # results.csv of this page is in percent already.
        percent = 100 if self.file == PHOTOS else 1
        scores = [percent * float(run["mAP"]) for run in runs]
        [epochs] = {run["epochs"] for run in runs}
        seconds = [float(run["seconds"]) for run in runs]
        spent = f"{min(seconds):.0f} to {max(seconds):.0f}" if max(seconds) else ""
        commands = [f"`{typed}`" if typed else "" for typed in (self.made_by, self.yours)]
        mean = estimate(scores).text()
        linear = [mean, str(len(runs)), epochs, spent]
        return [self.title, self.network, *self.tuned_cells(), *linear, *commands]

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


def of_compare(title: str, method: str, yours: str) -> Row:
    """Return a row of ``compare`` in photos/."""
    made_by = f"mmssprl compare --methods {method}"
    key = {"budget": "time", "method": method}
    return Row(title, NARROW, made_by, yours, PHOTOS, key, {"network": "narrow", "row": method})


def of_rows(
    title: str, network: str, row: str, yours: str, tuned: dict[str, str] | None = None
) -> Row:
    """Return a row of rows.yaml."""
    key = {"split": "test", "row": row}
    made_by = f"mmssprl compare --methods rows.yaml:{row}"
    if row == "frozen-224px":
        made_by = "mmssprl probe lite:lite0 COREL5K --image-px 224"
    return Row(title, network, made_by, yours, OWN, key, tuned or {})


ROWS = (
    of_compare("random weights, not trained", "random", ""),
    of_rows(
        "released weights",
        "Lite0",
        "frozen",
        "mmssprl embed timm/NAME photos/ photos.npz",
        {"network": "lite0", "row": "start"},
    ),
    of_rows("the same, images of 224 px", "Lite0", "frozen-224px", ""),
    of_compare("from scratch", "swav-small", "mmssprl pretrain photos/"),
    of_rows(
        "released weights, continued",
        "Lite0",
        "anchored",
        "mmssprl pretrain photos/ --weights timm/NAME",
        {"network": "lite0", "row": "anchored"},
    ),
    of_rows(
        "released weights as the teacher",
        NARROW,
        "cells",
        "mmssprl pretrain photos/ --teacher timm/NAME",
        {"network": "narrow", "row": "cells"},
    ),
)


def table() -> str:
    """Return the table in Markdown, without rows that have no runs yet."""
    lines = [row.cells() for row in ROWS]
    return markdown_table(COLUMNS, [line for line in lines if line]) + "\n"


if __name__ == "__main__":
    (HERE / "what_to_do.md").write_text(table())
