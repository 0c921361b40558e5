"""Fine-tune in a work dir, or resume the run there; score it, and draw some predictions."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cv2
import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmengine.evaluator import Evaluator
from mmengine.registry import DefaultScope
from mmengine.runner import Runner

from ..config.reading import read_config_file
from ..config.run_config import require
from ..console.options import collect, documented
from ..console.progress import watch
from ..console.quiet import quiet
from ..console.tables import csv_table, reasons_table
from ..console.wording import wrapped
from ..datasets.labels import DEFAULT_VAL_SHARE, LabelledData, find_labels
from ..datasets.labels.files import data_folder
from ..datasets.loader_processes import prepare_loaders
from ..drawing.sheets import Tile, draw_grid, spread
from ..engine.history import read_validations
from ..errors import UserFileNotFoundError, UserValueError
from ..pretraining.start import train_config
from ..reporting import report_run
from ..runs.forecast import Forecast, measure_pace
from ..runs.work_dirs import DEFAULT_PARENT, refuse_given, refuse_other, refuse_used
from ..saving.run_files import require_newest
from ..saving.run_record import RECIPE_FILE, SCORES
from ..system.commands import command_words
from ..system.outputs import require_space, write_figure, write_whole
from ..weights import whole_path
from .config import check_options, finetune_config, set_label_files, task_of
from .label_files import write_labels
from .model import load_model
from .options import FinetuneOptions
from .tasks import Scores, Task

SHEET_IMAGES = 8


@dataclass(frozen=True)
class Outcome:
    """Results of a fine-tuning."""

    scores: Scores  # of the validation images, after the last epoch
    checkpoint: Path
    files: list[Path]  # with scores and pictures
    best: dict[str, Any]  # epoch, score in percent and file of the best epoch; may be empty


@documented(FinetuneOptions)
def finetune(
    weights: str | Path,
    data: str | Path,
    task: str,
    work_dir: str | Path | None = None,
    *,
    epochs: int | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    image_px: int | None = None,
    freeze: bool = False,
    val_share: float | None = None,
    share: float | None = None,
    seed: int | None = None,
    resume: bool = False,
    log: Callable[[str], object] = print,
) -> Outcome:
    """Train a task on labelled images, score it, and draw some predictions.

    Args:
        weights: Backbone weights or a training checkpoint, 'random' or 'supervised'.
        data: Folder of the labelled images, or its data.yaml or COCO .json.
        task: 'classify', 'detect' or 'segment'.
        work_dir: Folder of the run; None takes work_dirs/<task>_<name of ``data``>.
        log: Receives labels, recipe, forecast and progress, line by line.

    Returns:
        The scores.

    Raises:
        FileExistsError: The work dir of a new run holds files.
        FileNotFoundError: There are no such data or weights, or there is no run to resume.
        ValueError: Data, weights or options cannot be trained with.
        RuntimeError: Too little memory, a missing package, or a process failed.
    """
    asked = collect(FinetuneOptions, locals())
    return fine_tune(str(weights), str(data), task, work_dir, asked, log)


def fine_tune(
    weights: str,
    data: str,
    task: str,
    work_dir: str | Path | None,
    asked: FinetuneOptions,
    log: Callable[[str], object],
    backbone_from: str | None = None,
) -> Outcome:
    """Do what ``finetune`` does; ``backbone_from`` is as for ``finetune_config``."""
    if not asked.resume:
        check_options(weights, task, asked)
    root = data_folder(data)
    folder = Path(work_dir or DEFAULT_PARENT / f"{task}_{root.resolve().name}")
    if asked.resume:
        config = _config_of_run(folder, weights, str(root), task)
        refuse_given(asked, config)
    else:
        labels = labels_for(data, task, asked)
        cfg, rows = finetune_config(weights, labels, task, asked, backbone_from)
        refuse_used(folder)  # after all other mistakes
        log(labels.describe())
        backbone = cfg.model.backbone
        fields = [f" {key} {backbone[key]}" for key in ("depth", "arch") if key in backbone]
        log(
            f"{task}, {backbone.type}{''.join(fields)}, weights of {weights}\n{reasons_table(rows)}"
        )
        with TemporaryDirectory() as temporary:
            write_labels(labels, Path(temporary), task)
            set_label_files(cfg, Path(temporary))
            expected = forecast_finetuning(cfg, folder)
        log(wrapped(expected.line))
        require_space(expected.work_dir, expected.disk_bytes)
        refuse_used(folder)  # another run may have started meanwhile
        write_labels(labels, folder / "labels", task)
        set_label_files(cfg, folder / "labels")
        write_whole(folder / "classes.txt", "\n".join(labels.classes) + "\n")
        printed = {
            "images": replace(labels, warnings=[]).describe().removeprefix(f"{labels.root}: "),
            "rows": [[name, *row] for name, row in rows.items()],
            "warnings": labels.warnings,
        }
        write_whole(folder / RECIPE_FILE, json.dumps(printed, indent=2) + "\n")
        config = folder / f"{task}.py"
        write_whole(config, cfg.pretty_text)
        log(f"config: {config}")
    train_config(
        config,
        folder,
        num_gpus=torch.cuda.device_count(),
        resume="auto" if asked.resume else None,
        resume_by=command_words("finetune", weights, data, "--task", task, "--work-dir", folder),
    )
    outcome = evaluate(folder, config)
    report_run(folder, log)
    return outcome


def labels_for(data: str, task: str, asked: FinetuneOptions) -> LabelledData:
    """Find the labels of a task, with the splits and the share that were asked for."""
    held_out = DEFAULT_VAL_SHARE if asked.val_share is None else asked.val_share
    kept = 1.0 if asked.share is None else asked.share
    return find_labels(data, task, val_share=held_out, train_share=kept, seed=asked.seed or 0)


def forecast_finetuning(cfg: Config, work_dir: Path) -> Forecast:
    """Time some steps of a run and a part of its validation, and extrapolate."""
    num_gpus, num_steps = torch.cuda.device_count(), cfg.param_scheduler[-1].end
    pace = measure_pace(cfg, amp=num_gpus > 0, num_devices=max(1, num_gpus), num_steps=num_steps)
    epochs = cfg.train_cfg.max_epochs
    validations = epochs // cfg.train_cfg.val_interval + 1  # and the scores at the end
    return Forecast(
        pace,
        epochs=epochs,
        steps_per_epoch=num_steps // epochs,
        checkpoint=cfg.default_hooks.checkpoint,
        work_dir=work_dir,
        num_backbones=2,  # the best model, and briefly the next best one
        other_s=validations * pace.validation_s,
    )


def _config_of_run(work_dir: Path, weights: str, data: str, task: str) -> Path:
    """Return the config of the run of ``weights`` on ``data`` in a work dir."""
    config = work_dir / f"{task}.py"
    if not config.is_file():
        raise UserFileNotFoundError(
            f"there is no run to resume: {config} is missing; correct work_dir and task."
        )
    cfg = read_config_file(config)
    require(cfg, **{"weights": str, "finetuning.data_root": str})
    if not {"num_images", "of_class"} <= cfg.finetuning.keys():
        raise UserValueError(f"{config} is of an older version; start it in another work_dir.")
    refuse_other("data", cfg.finetuning.data_root, data)
    refuse_other("weights", cfg.weights, whole_path(weights))
    return config


def evaluate(work_dir: Path, config: Path) -> Outcome:
    """Score the newest checkpoint of a run, and draw some predictions next to the labels."""
    cfg = read_config_file(config)
    checkpoint = require_newest(work_dir)
    task, model = task_of(cfg), load_model(cfg, checkpoint)
    with quiet(), DefaultScope.overwrite_default_scope(cfg.default_scope), torch.inference_mode():
        loader = Runner.build_dataloader(cfg.test_dataloader)
        prepare_loaders({"test_dataloader": loader}, log=str)  # the training has said it
        evaluator = Evaluator(task.metrics(work_dir / "labels" / "val.json"))
        evaluator.dataset_meta = {"classes": task.classes}
        for batch in watch(loader, "scoring val", total=len(loader)):
            evaluator.process(model.test_step(batch), batch)
        scores = task.score(evaluator.metrics)
    in_train, in_val = cfg.finetuning.of_class["train"], cfg.finetuning.of_class["val"]
    per_class: dict[str, dict[str, float | None]] = {}
    rows = []
    for name, *counts, values in zip(task.classes, in_train, in_val, scores.per_class, strict=True):
        per_class[name] = dict(zip(scores.heads, values, strict=True))
        rows.append([name, *counts, *("-" if x is None else f"{x:.1f}" for x in values)])
    rows.sort(key=lambda row: (-row[2], -row[1]))  # classes with most images in val first
    best = find_best(work_dir, task)
    files = [work_dir / name for name in SCORES]
    heads = ["class", "train images", "val images", *scores.heads]
    write_whole(files[0], csv_table(heads, rows))
    sizes = {f"num_{split}": num for split, num in cfg.finetuning.num_images.items()}
    content: dict[str, Any] = {**scores.total, **sizes, "per_class": per_class}
    if best:
        content["best"] = best
    if scores.confusion is not None:
        content["confusion"] = scores.confusion
    write_whole(files[1], json.dumps(content, indent=2) + "\n")
    with quiet(), DefaultScope.overwrite_default_scope(cfg.default_scope), torch.inference_mode():
        tiles = _drawn(model, loader.dataset, task)
    rows_of_two = [tiles[i : i + 2] for i in range(0, len(tiles), 2)]
    write_figure(files[2], draw_grid(rows_of_two, side_inches=4.8))
    return Outcome(scores, checkpoint, files, best)


def _drawn(model: Any, dataset: Any, task: Task) -> list[Tile]:
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
    for path in work_dir.glob("best_*_epoch_*.pth"):
        epoch = int(path.stem.rpartition("_")[2])
        if epoch in scores:
            return {"epoch": epoch, "score": factor * scores[epoch], "file": path.name}
    return {}
