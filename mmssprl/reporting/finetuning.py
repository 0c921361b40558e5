"""What a page about a fine-tuning shows: how well, by which recipe, and where it errs."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config
from scipy.stats import binomtest

from ..config.found_config import read_found
from ..console.durations import format_hours
from ..console.wording import command_line
from ..errors import UserFileNotFoundError
from ..finetuning.config import task_of
from ..finetuning.start import SCORES, shown_rows
from ..finetuning.tasks import TASKS
from ..monitoring import Record, read_scalars, read_validations
from ..saving.run_record import RECIPE_FILE
from ..saving.work_dir import require_newest
from ..visualization.curves import draw_finetuning
from .run import read_json
from .summary import Fact, total

_MOST_CLASSES = 20
"""Of a matrix of confusions: a larger one cannot be read."""
_MOST_MISTAKES = 10
_PICTURED = {
    "classify": "Some validation images with the best class found and its score. In green, with a "
    "check mark, where it is right; in red, with a cross and the true class, where it is wrong.",
    "detect": "Some validation images: on the left the labels, on the right what was found.",
    "segment": "Some validation images: on the left the labels, on the right what was found.",
}


def config_of_finetuning(work_dir: str | Path) -> Path | None:
    """Return the config of the fine-tuning that a work dir holds, None if it holds none."""
    files = (Path(work_dir) / f"{task}.py" for task in TASKS)
    return next(filter(Path.is_file, files), None)


def content_of(config: Path) -> dict[str, Any]:
    """Return what the template shows of the run of a config.

    Raises:
        FileNotFoundError: It has no scores yet.
    """
    folder, cfg = config.parent, read_found(config)
    try:
        scores = json.loads((folder / SCORES[1]).read_text())
        table = list(csv.reader((folder / SCORES[0]).open(newline="")))
    except FileNotFoundError as error:
        raise UserFileNotFoundError(
            f"a report of a fine-tuning needs its scores, but there is no {error.filename}; go on "
            "with the run, which scores it at its end."
        ) from None
    task = task_of(cfg)
    records = read_scalars(folder)
    name, score = next(iter(scores.items()))
    rows = shown_rows(table[1:])
    key, _, factor = task.val_score
    validations = {epoch: factor * x for epoch, x in read_validations(folder, key).items()}
    is_drawn = bool(validations) and "epochs_done" in records[-1]  # not of former versions
    return {
        "name": folder.absolute().name,
        "headline": f"{name} {score:.1f} %",
        "task": task.name,
        "backbone": cfg.model.backbone.type,
        "weights": Path(cfg.weights).name,
        "data": Path(cfg.finetuning.data_root).name,
        "words": _words(scores),
        "facts": _facts(cfg, scores, records),
        "told": read_json(folder / RECIPE_FILE),
        "losses": draw_finetuning(records, validations, name) if is_drawn else None,
        "heads": table[0],
        "rows": rows,
        "num_bare": len(table) - 1 - len(rows),
        **_confusions(scores.get("confusion"), task.classes),
        "pictured": _PICTURED[task.name],
        "commands": _commands(task.name, require_newest(folder).name, scores),
        "again": command_line("report", "."),
    }


def _words(scores: Mapping[str, Any]) -> list[str]:
    best = scores.get("best")
    if not best:
        return []
    return [
        f"Epoch {best['epoch']} had the best score in the training, {best['score']:.1f} %; its "
        f"weights are {best['file']}.",
        "These images chose it: an honest score of it needs others.",
    ]


def _facts(cfg: Config, scores: Mapping[str, Any], records: Sequence[Record]) -> list[Fact]:
    totals = {name: value for name, value in scores.items() if isinstance(value, float)}
    found = [Fact(name, f"{value:.1f} %") for name, value in totals.items()]
    matrix = scores.get("confusion")
    if matrix:
        right, num = sum(row[i] for i, row in enumerate(matrix)), sum(map(sum, matrix))
        low, high = binomtest(right, num).proportion_ci()
        most = max(map(sum, matrix)) / num
        remark = f"{right} of {num}; 95 % interval {100 * low:.1f} to {100 * high:.1f} %; "
        remark += f"the most frequent class alone has {100 * most:.1f} %"
        found[0] = found[0]._replace(remark=remark)
    epochs = cfg.train_cfg.max_epochs
    if best := scores.get("best"):
        found.append(Fact("best epoch", f"{best['epoch']} of {epochs}", f"{best['score']:.1f} %"))
    else:
        found.append(Fact("epochs", str(epochs)))
    images = f"{scores['num_train']:,} + {scores['num_val']:,}"
    found.append(Fact("images", images, "to train on and to validate with"))
    return [*found, Fact("time", format_hours(total(records, "time") / 3600), "of all steps")]


def _confusions(matrix: list[list[int]] | None, names: Sequence[str]) -> dict[str, Any]:
    """Return the matrix with each count's depth of colour, and the mistakes, the most first."""
    if matrix is None:
        return {"confusion": False}
    mistakes = [
        (names[i], names[j], count)
        for i, row in enumerate(matrix)
        for j, count in enumerate(row)
        if count and i != j
    ]
    mistakes.sort(key=lambda mistake: -mistake[2])
    cells = [[(x, round(0.8 * x / max(1, sum(row)), 2)) for x in row] for row in matrix]
    return {
        "confusion": True,
        "names": names,
        "matrix": cells if len(names) <= _MOST_CLASSES else None,
        "mistakes": mistakes[:_MOST_MISTAKES],
    }


def _commands(task: str, newest: str, scores: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = [("Predict other images.", ["predict", ".", "IMAGES", "--out", "predictions"])]
    if best := scores.get("best"):
        words = ["predict", best["file"], "IMAGES", "--out", "best_predictions"]
        found.append(("The same with the best epoch.", words))
    if task == "classify":
        words = ["export", newest, "--to", "onnx", "--full"]
        found.append(("Write the classifier for other programs.", words))
    return [(purpose, command_line(*words)) for purpose, words in found]
