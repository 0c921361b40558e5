"""The deployed networks of this page, and how `mmssprl pretrain` trains them."""

import csv
from pathlib import Path

HERE = Path(__file__).parent
BACKBONES = {"resnet18": "resnet18", "mobilenetv3": "timm/mobilenetv3_small_100"}
TRAINED_BY = {"swav-small": ("--method", "swav-small"), "distill": ("--teacher", "lite:lite0")}


def epochs_of(network: str, row: str) -> int:
    """Return the epochs that paces.csv gives a row of equal time."""
    with (HERE / "paces.csv").open(newline="") as file:
        for line in csv.DictReader(file):
            if (line["network"], line["row"]) == (network, row):
                return int(line["epochs"])
    raise KeyError(f"paces.csv has no {row} of {network}; run paces.py first")
