"""The end of a fine-tuning: scores per class, and predictions drawn beside the labels."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..config.found_config import read_found
from ..console.progress import watch
from ..console.tables import csv_table, markdown_table
from ..datasets import ImageReadError
from ..datasets.labels import LabelledData
from ..saving.work_dir import require_newest
from ..system.outputs import write_whole
from .label_files import read_labels
from .pictures import open_picture, save_sheet
from .predict import Predictor
from .tasks import Scores

SHEET_IMAGES = 8
_HEADS = ("class", "train images", "val images")


@dataclass(frozen=True)
class Outcome:
    """What a fine-tuning ends with.

    Args:
        scores: Of the validation images.
        table: Scores per class, as Markdown.
        checkpoint: The trained model.
        files: Where the scores and the pictures are.
    """

    scores: Scores
    table: str
    checkpoint: Path
    files: list[Path]


def evaluate(work_dir: Path, config: Path) -> Outcome:
    """Score the newest checkpoint of a run on its validation images.

    Writes scores.csv, scores.json and predictions.png into the work dir.
    """
    cfg = read_found(config)
    checkpoint = require_newest(work_dir)
    about = cfg.finetuning
    data = read_labels(work_dir / "labels", Path(about.data_root), about.layout)
    predictor = Predictor(cfg, checkpoint)
    task = predictor.task
    drawn = _drawn(data)
    pictures: dict[int, NDArray[np.uint8]] = {}
    predictions = []
    found = predictor.predict([image.path for image in data.val])
    for number, sample in enumerate(watch(found, "scoring val", total=len(data.val))):
        if isinstance(sample, ImageReadError):
            raise sample
        predictions.append(task.read(sample))
        if number in drawn:
            image = data.val[number]
            pictures[number] = task.draw(open_picture(image.path), sample, image)
    scores = task.score(data.val, predictions, work_dir / "labels" / "val.json")
    heads, rows = _rows(data, scores)
    table = markdown_table(heads, rows)
    files = [work_dir / name for name in ("scores.csv", "scores.json", "predictions.png")]
    write_whole(files[0], csv_table(heads, rows))
    write_whole(files[1], json.dumps(_as_json(data, scores), indent=2) + "\n")
    save_sheet([pictures[number] for number in drawn], files[2])
    return Outcome(scores, table, checkpoint, files)


def _rows(data: LabelledData, scores: Scores) -> tuple[list[str], list[list[str]]]:
    """Return the table, the classes with most images in val first."""
    in_train, in_val = data.count(data.train), data.count(data.val)
    order = sorted(range(len(data.classes)), key=lambda k: (-in_val[k], -in_train[k]))
    rows = [
        [
            data.classes[k],
            str(in_train[k]),
            str(in_val[k]),
            *("-" if value is None else f"{value:.1f}" for value in scores.per_class[k]),
        ]
        for k in order
    ]
    return [*_HEADS, *scores.heads], rows


def _as_json(data: LabelledData, scores: Scores) -> dict[str, object]:
    per_class = {
        name: dict(zip(scores.heads, values, strict=True))
        for name, values in zip(data.classes, scores.per_class, strict=True)
    }
    return {
        **scores.total,
        "num_train": len(data.train),
        "num_val": len(data.val),
        "per_class": per_class,
    }


def _drawn(data: LabelledData) -> list[int]:
    """Return some validation images, labelled ones first, the same ones every time."""
    order = np.random.default_rng(0).permutation(len(data.val)).tolist()
    # Label images show a background everywhere.
    least = 2 if data.val[0].mask else 1
    rich = [i for i in order if len(data.val[i].labels) >= least]
    bare = [i for i in order if len(data.val[i].labels) < least]
    return [*rich, *bare][:SHEET_IMAGES]
