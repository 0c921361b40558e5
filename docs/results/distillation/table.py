"""Make results.csv and table.md of this page from the runs of rows.yaml and SwAV's in photos/.

    python docs/results/distillation/table.py WORK_DIR --data COREL5K --voc VOC128

Runs that WORK_DIR lacks keep their rows of the CSV files. The nearest neighbours of COREL5K's test
images are scored, too, and the feature maps of the runs are probed at 224 px on the masks of
VOC128. Fine-tunings are in WORK_DIR/finetune/*: runs of ``mmssprl finetune BACKBONE COREL5K
--task classify --share 100% 10% --image-px 96``, named classify_ROW, and on coco128 with ``--task
detect --image-px 192 --epochs 20``, named detect_ROW.
"""

import argparse
import csv
import json
import re
from pathlib import Path

import lite  # noqa: F401  the network of continued runs
from torch.nn.functional import normalize

from mmssprl import probe
from mmssprl.console.tables import csv_table, markdown_table
from mmssprl.datasets.multi_label import PRESENT
from mmssprl.experiments.compare.images import read_images
from mmssprl.experiments.compare.rows import read_row
from mmssprl.experiments.statistics import estimate, welch
from mmssprl.features.backbone import load_backbone
from mmssprl.features.extract import FeatureOptions
from mmssprl.probing.linear import extract_split
from mmssprl.probing.measures import mean_average_precision
from mmssprl.weights import RANDOM

HERE = Path(__file__).parent
NAMES = ("split", "row", "seed", "epochs", "mAP", "kNN", "mIoU_voc128", "seconds", "commit")
NEIGHBORS, TEMPERATURE = 20, 0.07
"""Of the vote of the nearest neighbours, as of DINO's evaluation."""
PHOTOS = {
    "random": "random weights (photos/)",
    "swav-small": "SwAV, six small views (photos/)",
    "ssprl-small-sampled": "SS-PRL, sampled patches, six small views (photos/)",
    "supervised": "training on the 62 words (photos/)",
}
"""Rows of equal time in photos/results.csv."""
ROWS = {
    "frozen": "none: Lite0 itself, frozen",
    "frozen-224px": "the same, at 224 px",
    "frozen-lite2": "none: Lite2 itself, frozen",
    "swav-small": "SwAV, six small views",
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
    "anchored": "SwAV continued from Lite0, with its maps, a quarter of the images",
}
SHARES = ("0.1", "1.0")
CONTINUED = {
    "start": "Lite0 itself",
    "unprotected": "as from random weights",
    "statistics": "BatchNorm in evaluation mode",
    "statistics-share": "and a tenth of the rate for the backbone",
    "protected": "and an epoch of the heads alone",
    "anchored": "and Lite0's own kept maps as a teacher",
    "protected-short": "heads first, in 3 epochs",
    "protected-long": "heads first, in 30 epochs",
    "anchored-short": "kept maps, in 3 epochs",
    "anchored-long": "kept maps, in 30 epochs",
    "anchored-at-once": "kept maps, the heads not first",
    "anchored-moving": "the same, BatchNorm in training mode",
    "anchored-full-rate": "kept maps, the backbone at the full rate",
    "anchored-falling": "kept maps, rates that fall by block",
    "anchored-two-views": "kept maps, no small views",
}
_FOLDER = re.compile(r"(?P<row>.+)-(?P<epochs>\d+)ep-lr1-seed(?P<seed>\d+)")


def score_neighbors(folder: Path, data: Path) -> float:
    """Return the mAP in percent of a vote of the nearest training images, by cosine."""
    out = folder / "neighbors.json"
    if not out.exists():
        settings = json.loads((folder / "settings.json").read_text())
        file = next(map(str, folder.glob("*_backbone.pth")), RANDOM)
        config = read_row(settings)
        model = load_backbone(file, config, image_px=settings["image_px"], seed=settings["seed"])
        images, options = read_images(data, settings["split"]), FeatureOptions(progress=False)
        (train, labels), (test, truth) = (
            extract_split(model, split, options) for split in (images.train, images.test)
        )
        near = (normalize(test) @ normalize(train).T).topk(NEIGHBORS, dim=1)
        shares = (near.values / TEMPERATURE).softmax(1)[..., None]
        votes = shares * (labels == PRESENT)[near.indices]  # (N, 20, K)
        out.write_text(json.dumps(100 * mean_average_precision(votes.sum(1), truth)[0]))
    return json.loads(out.read_text())


def collect(work_dir: Path, data: Path, voc: Path) -> list[dict]:
    """Read the runs, and score their maps and neighbours; keep the rows of other runs."""
    found = {key_of(row): row for row in read_rows("results.csv")}
    for file in sorted(work_dir.glob("runs/*/measured.json")):
        folder = file.parent
        about = _FOLDER.fullmatch(folder.name).groupdict()
        values = json.loads(file.read_text())
        kept = {
            "split": "test",
            "row": about["row"],
            "seed": int(about["seed"]),
            "epochs": int(about["epochs"]),
            "mAP": 100 * values["mAP"],
        }
        out = file.with_name("voc128.json")
        weights = next(folder.glob("*_backbone.pth"), None)
        if weights and not out.exists():
            result = probe(weights, voc, image_px=224)
            out.write_text(json.dumps(100 * result.dense.mIoU))
        kept["mIoU_voc128"] = json.loads(out.read_text()) if weights else ""
        kept["kNN"] = score_neighbors(folder, data)
        kept |= {"seconds": values.get("seconds", 0.0), "commit": values["commit"]}
        found[key_of(kept)] = kept
    return [found[key] for key in sorted(found)]


def key_of(run: dict) -> tuple[str, str, int, int]:
    """Return what tells a run from the others."""
    return run["split"], run["row"], int(run["epochs"]), int(run["seed"])


def read_rows(file: str) -> list[dict]:
    """Read a CSV file of this page, with numbers as floats."""
    with (HERE / file).open(newline="") as opened:
        rows = [*csv.DictReader(opened)]
    numbers = ("mAP", "kNN", "mIoU_voc128", "seconds")
    return [{k: float(v) if k in numbers and v else v for k, v in row.items()} for row in rows]


def read_photos() -> list[dict]:
    """Return the runs of photos/ that had equal time, in percent."""
    with (HERE.parent / "photos" / "results.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["budget"] == "time"]
    return [{**row, "row": row["method"], "mAP": 100 * float(row["mAP"])} for row in rows]


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work_dir", type=Path)
    parser.add_argument("--voc", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    asked = parser.parse_args()
    runs = collect(asked.work_dir, asked.data, asked.voc)
    (HERE / "results.csv").write_text(csv_table(NAMES, [[r[n] for n in NAMES] for r in runs]))
    photos, tested = read_photos(), [run for run in runs if run["split"] == "test"]
    reference = [run["mAP"] for run in photos if run["row"] == "swav-small"]
    lines = [row_of(title, photos, row, reference) for row, title in PHOTOS.items()]
    lines += [row_of(title, tested, row, reference) for row, title in ROWS.items()]
    names = ["pre-training", "epochs", "seeds", "mAP %", "against SwAV", "kNN mAP %"]
    names += ["mIoU % voc128", "CPU s of the fastest seed, with the pass"]
    write("table.md", names, lines)
    held_out = [run for run in runs if run["split"] == "held-out"]
    [start] = [run["mAP"] for run in held_out if run["row"] == "start"]
    lines = []
    for row, title in CONTINUED.items():
        if line := row_of(title, held_out, row, [])[:4]:
            gains = estimate([run["mAP"] - start for run in held_out if run["row"] == row])
            lines.append([*line, "" if row == "start" else gains.text("+.1f")])
    names = ["SwAV continued from Lite0", "epochs", "seeds", "mAP % held out"]
    write("continued.md", [*names, "against the start"], lines)
    lines = [row_of(ROWS[row], held_out, row, []) for row in ("swav-small", "cells")]
    write("second_test.md", ["pre-training", *names[1:]], [line[:4] for line in lines])
    tuned = collect_finetunings(asked.work_dir, "classify")
    (HERE / "finetune.csv").write_text(csv_table([*tuned[0]], [[*row.values()] for row in tuned]))
    found = collect_finetunings(asked.work_dir, "detect")
    (HERE / "detect.csv").write_text(csv_table([*found[0]], [[*row.values()] for row in found]))
    lines = []
    for name in dict.fromkeys(row["weights"] for row in tuned):
        cells = [[float(row["mAP"]) for row in tuned if cell_of(row) == (name, s)] for s in SHARES]
        lines.append([name, *(estimate(cell).text() for cell in cells)])
    write(
        "finetune.md", ["fine-tuned from", "mAP %, 10 % of the labels", "mAP %, all labels"], lines
    )


def cell_of(row: dict) -> tuple[str, str]:
    """Return what the runs of a cell of the table of fine-tunings have in common."""
    return row["weights"], row["share"]


def collect_finetunings(work_dir: Path, task: str) -> list[dict]:
    """Read the results of all fine-tunings, random weights once."""
    file = {"classify": "finetune.csv", "detect": "detect.csv"}[task]
    found = {(*cell_of(row), row["seed"]): row for row in read_rows(file)}
    for file in sorted(work_dir.glob(f"finetune/{task}_*/results.csv")):
        with file.open(newline="") as opened:
            for row in csv.DictReader(opened):
                row["weights"] = row["weights"].removesuffix("_backbone")
                found[*cell_of(row), row["seed"]] = row
    return sorted(found.values(), key=cell_of)


def row_of(title: str, runs: list[dict], row: str, reference: list[float]) -> list[str]:
    """Return a line of a table, empty if there are no such runs."""
    own = [run for run in runs if run["row"] == row]
    if not own:
        return []
    scores = [run["mAP"] for run in own]
    line = [title, own[0]["epochs"], len(own), estimate(scores).text()]
    has_difference = len(own) > 1 and reference not in ([], scores)
    line.append(welch(scores, reference)[0].text() if has_difference else "")
    for name in ("kNN", "mIoU_voc128"):
        values = [run[name] for run in own if run.get(name, "") != ""]
        line.append(estimate(values).text() if values else "")
    return [*line, f"{min(float(run['seconds']) for run in own):.0f}"]


def write(file: str, names: list[str], lines: list[list]) -> None:
    """Write a table of this page."""
    text = [[str(cell) for cell in line] for line in lines if line]
    (HERE / file).write_text(markdown_table(names, text) + "\n")


if __name__ == "__main__":
    main()
