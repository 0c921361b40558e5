"""Make what_to_do.md, the table that README shows too, from the scores of deployed/.

    python docs/results/distillation/what_to_do.py

A row appears once its runs are in the CSV file.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

from mmssprl.console.tables import markdown_table
from mmssprl.experiments.statistics import estimate

HERE = Path(__file__).parent
SCORES = HERE.parent / "deployed" / "results.csv"
SHARES = ("10 %", "100 %")
COLUMNS = (
    *("network", "start", "fine-tuned, 10 % of the labels", "fine-tuned, all", "linear"),
    *("seeds", "epochs", "CPU min", "made by", "on your photographs"),
)


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    network: str  # of deployed/
    row: str  # of deployed/
    title: str
    yours: str  # command that does the same on a user's photographs

    def cells(self) -> list[str]:
        """Return the texts of the line, none if there are no runs yet."""
        runs = self.runs("linear")
        if not runs:
            return []

        tuned = [_mean_of(self.runs(share), has_seeds=True) for share in SHARES]
        [epochs] = {run["epochs"] for run in runs}
        seconds = [float(run["pretraining_s"]) for run in runs]
        spent = f"{min(seconds) / 60:.0f}" if max(seconds) else ""
        linear = [_mean_of(runs), str(len(runs)), epochs, spent]
        made_by = f"deployed/runs.py --networks {self.network}"
        commands = [f"`{typed}`" if typed else "" for typed in (made_by, self.yours)]
        return [NETWORKS[self.network], self.title, *tuned, *linear, *commands]

    def runs(self, measure: str) -> list[dict[str, str]]:
        """Return the lines of its scores by a measure."""
        key = {"network": self.network, "row": self.row, "measure": measure}
        with SCORES.open(newline="") as file:
            return [run for run in csv.DictReader(file) if key.items() <= run.items()]


def _mean_of(runs: list[dict[str, str]], *, has_seeds: bool = False) -> str:
    """Return the mean mAP, maybe with the number of its seeds."""
    scores = [float(run["mAP"]) for run in runs]
    if not scores:
        return ""
    seeds = f" ({len(scores)})" if has_seeds else ""
    return f"{estimate(scores).text()}{seeds}"


def _pretrained(network: str, options: str, last: str) -> list[Row]:
    """Return the rows of random weights, from scratch and of a teacher, whose own row is last."""
    typed = f"mmssprl pretrain photos/{options}"
    return [
        Row(network, "random", "random weights", ""),
        Row(network, "swav-small", "from scratch", typed),
        Row(network, last, "a teacher's released weights", f"{typed} --teacher timm/NAME"),
    ]


NETWORKS = {
    "resnet18": "ResNet-18",
    "mobilenetv3": "MobileNetV3-small",
    "narrow": "narrow ResNet-18",
    "lite0": "Lite0",
}
_CONTINUED = "mmssprl pretrain photos/ --weights timm/NAME --method swav-small"
ROWS = (
    *_pretrained("resnet18", " --backbone resnet18", "distill"),
    *_pretrained("mobilenetv3", " --backbone timm/mobilenetv3_small_100", "distill"),
    *_pretrained("narrow", "", "cells"),
    Row("lite0", "start", "released weights", "mmssprl embed timm/NAME photos/ photos.npz"),
    Row("lite0", "anchored", "released weights, continued", _CONTINUED),
)


def table() -> str:
    """Return the table in Markdown, without rows that have no runs yet."""
    lines = [row.cells() for row in ROWS]
    return markdown_table(COLUMNS, [line for line in lines if line], num_left=2) + "\n"


if __name__ == "__main__":
    (HERE / "what_to_do.md").write_text(table())
