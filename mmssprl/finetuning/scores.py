"""Score a fine-tuning, and draw some of its predictions."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmengine.evaluator import Evaluator
from mmengine.registry import DefaultScope
from mmengine.runner import Runner

from ..config.reading import read_config_file
from ..console.progress import watch
from ..console.quiet import quiet
from ..console.tables import csv_table
from ..datasets.loader_processes import prepare_loaders
from ..drawing.sheets import Tile, draw_grid, spread
from ..engine.history import read_validations
from ..saving.run_files import require_newest
from ..saving.run_record import SCORES
from ..system.outputs import write_figure, write_whole
from .config import task_of
from .model import load_model
from .tasks import Scores, Task

SHEET_IMAGES = 6
_SHEET_INCHES = 9.6


@dataclass(frozen=True)
class Outcome:
    """Results of a fine-tuning.

    Attributes:
        scores: Of the validation images, after the last epoch; ``scores.total`` has them in
            percent by name, such as mAP or accuracy.
        checkpoint: Of the last epoch.
        files: With scores and pictures.
        best: Epoch, score in percent and file of the best epoch; may be empty.
    """

    scores: Scores
    checkpoint: Path
    files: list[Path]
    best: dict[str, Any]


def score_run(config: Path) -> Outcome:
    """Score the newest checkpoint of a run, and draw some predictions next to the labels."""
    work_dir = config.parent
    cfg = read_config_file(config)
    checkpoint = require_newest(work_dir)
    task = task_of(cfg)
    model = load_model(cfg, checkpoint)
    files = [work_dir / name for name in SCORES]
    csv_file, json_file, sheet_file = files

    in_scope = DefaultScope.overwrite_default_scope(cfg.default_scope)
    with quiet(), in_scope, torch.inference_mode():
        loader = Runner.build_dataloader(cfg.test_dataloader)
        prepare_loaders({"test_dataloader": loader}, log=str)  # the training has said it
        evaluator = Evaluator(task.metrics(work_dir / "labels" / "val.json"))
        evaluator.dataset_meta = {"classes": task.classes}
        for batch in watch(loader, "scoring val", total=len(loader)):
            evaluator.process(model.test_step(batch), batch)
        scores = task.score(evaluator.metrics)

    best = find_best(work_dir, task)
    write_whole(csv_file, _table_of_classes(cfg, task, scores))
    write_whole(json_file, json.dumps(_content(cfg, task, scores, best), indent=2) + "\n")
    in_scope = DefaultScope.overwrite_default_scope(cfg.default_scope)
    with quiet(), in_scope, torch.inference_mode():
        tiles = draw_predictions(model, loader.dataset, task)
    num = task.pictures_per_row
    rows = [tiles[i : i + num] for i in range(0, len(tiles), num)]
    sheet = draw_grid(rows, task.sheet_title, side_inches=_SHEET_INCHES / num)
    write_figure(sheet_file, sheet)
    return Outcome(scores, checkpoint, files, best)


def _table_of_classes(cfg: Config, task: Task, scores: Scores) -> str:
    """Return CSV of each class's images and scores, those with most images in val first."""
    of_class = cfg.finetuning.of_class
    rows = []
    for name, in_train, in_val, values in zip(
        task.classes, of_class["train"], of_class["val"], scores.per_class, strict=True
    ):
        shown = ["-" if value is None else f"{value:.1f}" for value in values]
        rows.append([name, in_train, in_val, *shown])
    rows.sort(key=lambda row: (-row[2], -row[1]))
    return csv_table(["class", "train images", "val images", *scores.heads], rows)


def _content(cfg: Config, task: Task, scores: Scores, best: dict[str, Any]) -> dict[str, Any]:
    """Return the scores, ready for JSON."""
    sizes = {f"num_{split}": num for split, num in cfg.finetuning.num_images.items()}
    per_class: dict[str, dict[str, float | None]] = {}
    for name, values in zip(task.classes, scores.per_class, strict=True):
        per_class[name] = dict(zip(scores.heads, values, strict=True))

    content: dict[str, Any] = {**scores.total, **sizes, "per_class": per_class}
    if best:
        content["best"] = best
    if scores.confusion is not None:
        content["confusion"] = scores.confusion
    return content


def draw_predictions(model: Any, dataset: Any, task: Task) -> list[Tile]:
    """Predict some images again and draw them; keeping all samples would take too much memory."""
    tiles = []
    for index in spread(len(dataset), SHEET_IMAGES):
        (sample,) = model.test_step(pseudo_collate([dataset[index]]))
        # The pixels that were predicted, in BGR: a config of an older version reads by mmcv.
        loaded = dataset.pipeline.transforms[0]({"img_path": sample.img_path})
        picture = cv2.cvtColor(loaded["img"], cv2.COLOR_BGR2RGB)
        tiles.append(Tile(task.draw(picture, sample), name=Path(sample.img_path).name))
    return tiles


def find_best(work_dir: Path, task: Task) -> dict[str, Any]:
    """Return epoch, score in percent and file of the best epoch; empty if none was kept."""
    key, _, factor = task.val_score
    scores = read_validations(work_dir, key)
    kept = {}
    for path in work_dir.glob("best_*_epoch_*.pth"):
        epoch = int(path.stem.rpartition("_")[2])
        if epoch in scores:
            kept[epoch] = path.name
    if not kept:
        return {}

    # Runs of 0.3.0 and older that were moved have several.
    best = max(kept, key=lambda epoch: (scores[epoch], epoch))
    return {"epoch": best, "score": factor * scores[best], "file": kept[best]}
