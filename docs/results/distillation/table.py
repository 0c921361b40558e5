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
NAMES = ("split", "row", "seed", "epochs", "mAP", "mIoU_voc128", "seconds", "commit")
WITHOUT_PASS = "200864e4"
"""The commit that did not count the teacher's pass in the seconds of a run."""
ROWS = {
    "frozen": "none: Lite0 itself, frozen",
    "frozen-224px": "the same, at 224 px",
    "frozen-lite2": "none: Lite2 itself, frozen",
    "pooled": "two image views",
    "cells": "two image views and their cells",
    "cells-small": "cells, and four small views",
    "cells-patches": "cells, and sampled patches",
    "codes": "codes of two image views",
    "lite2": "cells, of the teacher Lite2",
    "each-crop-64px": "cells, the teacher on each crop at 64 px",
    "each-crop-128px": "cells, the teacher on each crop at 128 px",
    "tenth": "cells, a tenth of the images",
    "tenth-swav-small": "SwAV, six small views, a tenth of the images",
}
CONTINUED = {
    "start": "Lite0 itself",
    "unprotected": "as from random weights",
    "statistics": "BatchNorm in evaluation mode",
    "statistics-share": "and a tenth of the rate for the backbone",
    "protected": "and an epoch of the heads alone",
}


def collect(work_dir: Path, voc: Path) -> list[dict]:
    """Read the runs, and score their maps."""
    from mmssprl import probe

    found = []
    for file in sorted(work_dir.glob("*/*/measured.json")):
        name, seed = file.parent.name.split("-seed")
        row, _, epochs = name.removesuffix("ep").rpartition("-")
        values = json.loads(file.read_text())
        split = file.parent.parent.name
        kept = {
            "split": split,
            "row": row,
            "seed": int(seed),
            "epochs": int(epochs),
            "mAP": 100 * values["mAP"],
        }
        out = file.with_name("voc128.json")
        has_file = split == "test" and kept["epochs"] > 0
        if has_file and not out.exists():
            result = probe(file.parent / f"{row}_backbone.pth", voc, image_px=224)
            out.write_text(json.dumps(100 * result.dense.mIoU))
        kept["mIoU_voc128"] = json.loads(out.read_text()) if has_file else ""
        kept |= {"seconds": values.get("seconds", 0.0), "commit": values["commit"]}
        if values["commit"] == WITHOUT_PASS:
            state = json.loads((work_dir / "test" / "lite0" / "teacher_maps.json").read_text())
            kept["seconds"] += state["seconds"]
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
        cells.append(welch(scores, reference)[0].text() if len(own) > 1 else "")
        maps = [run["mIoU_voc128"] for run in own if run["mIoU_voc128"] != ""]
        cells.append(estimate(maps).text() if maps else "")
        cells.append(f"{sum(run['seconds'] for run in own) / len(own):.0f}")
        lines.append(cells)
    names = ["pre-training", "epochs", "seeds", "mAP %", "against SwAV"]
    names += ["mIoU % voc128", "CPU s, the teacher's pass included"]
    write("table.md", names, lines)
    lines = []
    for row, title in CONTINUED.items():
        own = [run for run in runs if run["row"] == row]
        if own:
            scores = [run["mAP"] for run in own]
            lines.append([title, own[0]["epochs"], len(own), estimate(scores).text()])
    write("continued.md", ["SwAV continued from Lite0", "epochs", "seeds", "mAP % held out"], lines)


def write(file: str, names: list[str], lines: list[list]) -> None:
    """Write a table of this page."""
    text = [[str(cell) for cell in line] for line in lines]
    (HERE / file).write_text(markdown_table(names, text) + "\n")


if __name__ == "__main__":
    main()
