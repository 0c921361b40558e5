"""Write differences.csv: every difference that this page shows of images it was tested on.

    python docs/results/distillation/differences.py

Rows of equal time are compared with the five seeds of photos/ for SwAV with six small views. The
other differences are the ones that the text names. The images are 'test', the 499 test
photographs, or 'voc128', the 100 photographs of the dense probe.
"""

import csv
from pathlib import Path

from mmssprl.console.tables import csv_table
from mmssprl.experiments.statistics import estimate, welch

HERE = Path(__file__).parent
NAMES = ("images", "score", "row", "reference", "num_seeds", "num_reference_seeds")
DEFAULT = "swav-small"
PHOTOS = ("random", "ssprl-small-sampled", "supervised")
"""Rows of photos/results.csv that table.md compares with the default's."""
OWN = (
    *("pooled", "cells", "cells-small", "cells-patches", "codes", "lite2", "each-crop-64px"),
    *("tenth", "tenth-swav-small", "anchored"),
)
"""Rows of results.csv that it compares with the default's, too."""
NAMED = (
    ("mAP", "cells", "pooled"),
    ("mAP", "cells-small", "pooled"),
    ("mAP", "cells-patches", "pooled"),
    ("kNN", "cells", "pooled"),
    ("kNN", "cells-small", "pooled"),
    ("kNN", "cells-patches", "pooled"),
    ("mIoU_voc128", "cells", "pooled"),
    ("mIoU_voc128", "cells-small", "pooled"),
    ("mIoU_voc128", "cells-patches", "pooled"),
    ("mAP", "cells", "each-crop-64px"),
    ("mAP", "tenth", "tenth-swav-small"),
    ("mAP", "anchored", "frozen"),
    ("kNN", "anchored", "frozen"),
)
"""Score, row and reference of the differences that README.md names."""


def read_scores() -> dict[tuple[str, str], list[float]]:
    """Return the scores of all seeds in percent by score and row; of photos/ as photos/ROW."""
    found: dict[tuple[str, str], list[float]] = {}
    with (HERE / "results.csv").open(newline="") as file:
        for run in csv.DictReader(file):
            for score in ("mAP", "kNN", "mIoU_voc128"):
                if run["split"] == "test" and run[score]:
                    found.setdefault((score, run["row"]), []).append(float(run[score]))

    with (HERE.parent / "photos" / "results.csv").open(newline="") as file:
        for run in csv.DictReader(file):
            if run["budget"] == "time":
                row = f"photos/{run['method']}"
                found.setdefault(("mAP", row), []).append(100 * float(run["mAP"]))
    return found


def main() -> None:
    """Write differences.csv."""
    reference = f"photos/{DEFAULT}"
    compared = [("mAP", f"photos/{row}", reference) for row in PHOTOS]
    compared += [("mAP", row, reference) for row in OWN]
    compared += NAMED

    scores = read_scores()
    lines = []
    for score, row, other in compared:
        own = scores[score, row]
        others = scores[score, other]
        if len(others) == 1:  # frozen weights have no seeds
            found = estimate([value - others[0] for value in own])
        else:
            found = welch(own, others)[0]
        images = "voc128" if score == "mIoU_voc128" else "test"
        counts = [len(own), len(others)]
        lines.append([images, score, row, other, *counts, found.mean, found.half_width])
    (HERE / "differences.csv").write_text(csv_table([*NAMES, "difference", "half_width"], lines))


if __name__ == "__main__":
    main()
