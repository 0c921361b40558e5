"""The content of a page about a fine-tuning: scores, recipe and errors."""

import csv
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from mmengine.config import Config
from PIL import Image

from ..config.run_config import require, run_config
from ..console.durations import format_hours
from ..engine.history import Record, read_scalars, read_validations
from ..errors import UserFileNotFoundError, refuse_damaged
from ..saving.run_record import RECIPE_FILE, SCORES
from ..system.commands import command_line
from ..system.record_file import read_record
from .pictures.curves import draw_finetuning
from .summary import Answer, Fact, total

_NEEDS: dict[str, Any] = {
    "finetuning.task": str,
    "finetuning.classes": list,
    "finetuning.data_root": str,
    "log_processor.key": str,
    "log_processor.factor": (float, int),
    "model.backbone.type": str,
    "train_cfg.max_epochs": int,
    "weights": str,
}
_MOST_NUMBERED = 20  # classes of a confusion matrix with readable numbers


def finetuning_config(work_dir: str | Path) -> Config | None:
    """Return the config of a fine-tuning's work dir, None for another folder."""
    with suppress(UserFileNotFoundError):
        cfg = run_config(work_dir)
        return cfg if "finetuning" in cfg else None
    return None


def content_of(cfg: Config) -> dict[str, Any]:
    """Return what the template shows of a run; figures and images are not encoded yet."""
    require(cfg, **_NEEDS)
    config = Path(cfg.filename)
    folder = config.parent
    scores, (heads, *rows), sheet = _read_scores(folder)
    totals = {key: value for key, value in scores.items() if type(value) is float}
    name, score = next(iter(totals.items()), ("no score", None))

    facts = [Fact(key, f"{value:.1f} %") for key, value in totals.items()]
    words = ["Scores of the validation images after the last epoch."]
    command = command_line("predict", ".", "IMAGES", "--out", "predictions")
    commands = [("Predict other images.", command)]
    if best := scores.get("best"):
        words.append(
            f"Epoch {best['epoch']} had the best score in the training, {best['score']:.1f} %; its "
            f"weights are {best['file']}. These images chose it: an honest score needs others."
        )
        epochs = f"{best['epoch']} of {cfg.train_cfg.max_epochs}"
        facts.append(Fact("best epoch", epochs, f"{best['score']:.1f} %"))
        command = command_line("predict", best["file"], "IMAGES", "--out", "best_predictions")
        commands.append(("The same with the best epoch.", command))

    records = read_scalars(folder)
    images = f"{scores['num_train']:,} + {scores['num_val']:,}"
    facts.append(Fact("images", images, "to train on and to validate with"))
    facts.append(Fact("time", format_hours(total(records, "time") / 3600), "of all steps"))
    return {
        "name": folder.absolute().name,
        "answer": Answer("neutral", name if score is None else f"{name} {score:.1f} %", words),
        "task": cfg.finetuning.task,
        "backbone": cfg.model.backbone.type,
        "weights": Path(cfg.weights).name,
        "data": Path(cfg.finetuning.data_root).name,
        "facts": facts,
        "recipe": read_record(folder / RECIPE_FILE),
        "config": config.name,
        "curves": _curves(cfg, records, name),
        "heads": heads,
        "rows": rows,
        "confusion": _confusions(scores.get("confusion"), cfg.finetuning.classes),
        "sheet": sheet,
        "commands": commands,
    }


def _read_scores(folder: Path) -> tuple[dict[str, Any], list[list[str]], Image.Image]:
    """Return the scores, the rows of their table with its heads, and the sheet of errors."""
    table_file, scores_file, sheet_file = (folder / name for name in SCORES)
    try:
        with refuse_damaged(folder, "the work dir of a fine-tuning", "resume the run"):
            scores = json.loads(scores_file.read_text())
            table = [*csv.reader(table_file.read_text().splitlines())]
            sheet = Image.open(sheet_file).convert("RGB")
            # What the page takes of them must be there.
            scores.items(), len(table[1][2]), dict(scores["per_class"])
    except FileNotFoundError as error:
        raise UserFileNotFoundError(
            f"a report of a fine-tuning needs its scores, but there is no {error.filename}; "
            "resume the run, which writes them at its end."
        ) from None
    return scores, table, sheet


def _curves(cfg: Config, records: Sequence[Record], name: str) -> Figure | str:
    """Draw loss and validations, or nothing without these."""
    score_of = cfg.log_processor
    found = read_validations(Path(cfg.filename).parent, score_of.key)
    validations = {epoch: score_of.factor * score for epoch, score in found.items()}
    return draw_finetuning(records, validations, name) if validations else ""


def _confusions(matrix: list[list[int]] | None, classes: list[str]) -> Figure | str:
    """Draw a confusion matrix, or nothing without one."""
    if not matrix:
        return ""
    from mmpretrain.evaluation import ConfusionMatrix

    has_numbers = len(classes) <= _MOST_NUMBERED
    figure = ConfusionMatrix.plot(
        torch.tensor(matrix), has_numbers, "Blues", classes, colorbar=False, show=False
    )
    pyplot.close(figure)  # it can still be saved
    return figure
