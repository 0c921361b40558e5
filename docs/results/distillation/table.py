"""Make results.csv and table.md of this page from the runs of rows.py and from SwAV's in photos/.

    python docs/results/distillation/table.py WORK_DIR --voc VOC128

The feature maps of the runs are probed at 224 px on the masks of VOC128.
"""

import argparse
import csv
import json
from pathlib import Path

from mmssprl.console.tables import csv_table, markdown_table
from mmssprl.experiments.statistics import estimate, welch

HERE = Path(__file__).parent
NAMES = ("row", "seed", "epochs", "mAP", "mIoU_voc128", "seconds", "commit")
ROWS = {
    "pooled": "two image views",
    "cells": "two image views and their cells",
    "cells-small": "cells, and four small views",
    "cells-patches": "cells, and sampled patches",
}


def collect(work_dir: Path, voc: Path) -> list[dict]:
    """Read the runs, and score their maps."""
    from mmssprl import probe

    found = []
    for file in sorted(work_dir.glob("test/*/measured.json")):
        name, seed = file.parent.name.split("-seed")
        row, _, epochs = name.removesuffix("ep").rpartition("-")
        values = json.loads(file.read_text())
        kept = {"row": row, "seed": int(seed), "epochs": int(epochs), "mAP": 100 * values["mAP"]}
        out = file.with_name("voc128.json")
        if not out.exists():
            result = probe(file.parent / f"{row}_backbone.pth", voc, image_px=224)
            out.write_text(json.dumps(100 * result.dense.mIoU))
        kept["mIoU_voc128"] = json.loads(out.read_text())
        kept |= {"seconds": values["seconds"], "commit": values["commit"]}
        found.append(kept)
    return found


def swav() -> list[float]:
    """Return the mAP of SwAV with small views for 44 epochs, five seeds."""
    with (HERE.parent / "photos" / "results.csv").open(newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["method"] == "swav-small"]
    return [100 * float(row["mAP"]) for row in rows if row["budget"] == "time"]


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work_dir", type=Path)
    parser.add_argument("--voc", type=Path, required=True)
    asked = parser.parse_args()
    runs = collect(asked.work_dir, asked.voc)
    (HERE / "results.csv").write_text(csv_table(NAMES, [[r[n] for n in NAMES] for r in runs]))
    reference = swav()
    lines = [["SwAV, six small views (photos/)", 44, 5, estimate(reference).text(), "", "", ""]]
    for row, title in ROWS.items():
        own = [run for run in runs if run["row"] == row]
        if not own:
            continue
        scores = [run["mAP"] for run in own]
        cells = [title, own[0]["epochs"], len(own), estimate(scores).text()]
        cells.append(f"{welch(scores, reference)[0].text()}")
        cells.append(estimate([run["mIoU_voc128"] for run in own]).text())
        cells.append(f"{sum(run['seconds'] for run in own) / len(own):.0f}")
        lines.append(cells)
    names = ["pre-training", "epochs", "seeds", "mAP %", "against SwAV"]
    names += ["mIoU % voc128", "CPU s, without the pass"]
    text = [[str(cell) for cell in line] for line in lines]
    (HERE / "table.md").write_text(markdown_table(names, text) + "\n")


if __name__ == "__main__":
    main()
