"""Make what_to_do.md, the table that README shows too, from the CSV files of the results.

    python docs/results/distillation/what_to_do.py

A row appears once its runs on the test images are in the CSV file: frozen and continued weights are
rows `frozen`, `frozen-224px` and `anchored` of results.csv.
"""

import csv
from pathlib import Path

from mmssprl.console.tables import markdown_table
from mmssprl.experiments.statistics import estimate

HERE = Path(__file__).parent
PHOTOS = HERE.parent / "photos" / "results.csv"
OWN = HERE / "results.csv"
COLUMNS = ("start", "mAP %", "seeds", "epochs", "command")
ROWS = (
    ("random weights, not trained", "", PHOTOS, {"budget": "time", "method": "random"}),
    (
        "released weights, frozen",
        "mmssprl embed supervised photos/ photos.npz",
        OWN,
        {"split": "test", "row": "frozen"},
    ),
    ("the same, images of 224 px", "", OWN, {"split": "test", "row": "frozen-224px"}),
    (
        "from scratch",
        "mmssprl pretrain photos/",
        PHOTOS,
        {"budget": "time", "method": "swav-small"},
    ),
    (
        "released weights, continued",
        "mmssprl pretrain photos/ --weights supervised",
        OWN,
        {"split": "test", "row": "anchored"},
    ),
    (
        "released weights as the teacher",
        "mmssprl pretrain photos/ --teacher supervised",
        OWN,
        {"split": "test", "row": "cells"},
    ),
)
"""Title, command, file, and the values that name the runs of a row."""


def table() -> str:
    """Return the table in Markdown, without rows that have no runs yet."""
    lines = []
    for title, command, file, key in ROWS:
        with file.open(newline="") as opened:
            runs = [run for run in csv.DictReader(opened) if key.items() <= run.items()]
        if not runs:
            continue
        percent = 100 if file == PHOTOS else 1  # results.csv of this page is in percent already
        scores = [percent * float(run["mAP"]) for run in runs]
        [epochs] = {run["epochs"] for run in runs}
        typed = f"`{command}`" if command else ""
        lines.append([title, estimate(scores).text(), str(len(runs)), epochs, typed])
    return markdown_table(COLUMNS, lines) + "\n"


if __name__ == "__main__":
    (HERE / "what_to_do.md").write_text(table())
