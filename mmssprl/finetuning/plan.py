"""Plan a fine-tuning: its labels, recipe, config and forecast."""

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from mmengine.config import Config

from ..config.reading import read_config_file
from ..config.run_config import require
from ..console.tables import reasons_table
from ..console.wording import counted, wrapped
from ..datasets.labels import DEFAULT_VAL_SHARE, LabelledData, find_labels
from ..datasets.labels.files import data_folder
from ..drawing.named_boxes import missing_characters
from ..errors import UserFileNotFoundError, UserValueError
from ..runs.forecast import Forecast, measure_pace
from ..runs.start import Log, PlannedRun
from ..runs.work_dirs import refuse_other, refuse_used
from ..system.outputs import write_whole
from ..weights import whole_path, write_description
from .config import backbone_config, check_options, finetune_config, set_label_files
from .label_files import write_labels
from .options import FinetuneOptions


@dataclass(frozen=True, kw_only=True)
class FinetunePlanner:
    """Plans the fine-tuning of weights on labelled images.

    ``backbone_from`` is as for ``finetune_config``.
    """

    weights: str
    data: str
    task: str
    asked: FinetuneOptions
    backbone_from: str | None = None

    def check(self) -> None:
        """Raise ValueError for weights, task or options that cannot be used; reads no labels."""
        check_options(self.weights, self.task, self.asked)

    def plan(self, work_dir: Path, log: Log) -> PlannedRun:
        """Find the labels, choose a recipe, time some steps, and log all of it; writes nothing.

        Raises:
            FileExistsError: The work dir holds files.
            ValueError: Data, weights or options cannot be trained with.
        """
        task = self.task
        labels = labels_for(self.data, task, self.asked)
        cfg, rows = finetune_config(self.weights, labels, task, self.asked, self.backbone_from)
        if task == "detect":
            rows |= rows_of_crowded(labels, cfg.model.test_cfg.rcnn.max_per_img)
        refuse_used(work_dir)  # after all other mistakes
        log(labels.describe())
        network = _describe_network(cfg.model.backbone)
        log(f"{task}, {network}, weights of {self.weights}\n{reasons_table(rows)}")

        with TemporaryDirectory() as temporary:
            write_labels(labels, Path(temporary), task)
            set_label_files(cfg, Path(temporary))
            expected = forecast_finetuning(cfg, work_dir)
        log(wrapped(expected.line))

        def write_inputs(folder: Path) -> None:
            write_labels(labels, folder / "labels", task)
            # Checkpoints hold neither the network nor the numbers of its images.
            write_description(folder / f"{task}_backbone.pth", backbone_config(cfg))
            write_whole(folder / "classes.txt", "\n".join(labels.classes) + "\n")

        set_label_files(cfg, work_dir / "labels")
        printed = {
            "images": replace(labels, warnings=[]).describe().removeprefix(f"{labels.root}: "),
            "rows": [[name, *row] for name, row in rows.items()],
            "warnings": labels.warnings,
        }
        return PlannedRun(
            name=task,
            cfg=cfg,
            recipe=printed,
            forecast=expected,
            num_gpus=torch.cuda.device_count(),
            write_inputs=write_inputs,
        )

    def config_of_run(self, work_dir: Path) -> Config:
        """Read the config of the run in a work dir, which must have these weights and data."""
        config = work_dir / f"{self.task}.py"
        if not config.is_file():
            raise UserFileNotFoundError(
                f"there is no run to resume: {config} is missing; correct work_dir and task."
            )
        cfg = read_config_file(config)
        require(cfg, **{"weights": str, "finetuning.data_root": str})
        if not {"num_images", "of_class"} <= cfg.finetuning.keys():
            raise UserValueError(f"{config} is of an older version; start it in another work_dir.")
        refuse_other("data", cfg.finetuning.data_root, str(data_folder(self.data)))
        refuse_other("weights", cfg.weights, whole_path(self.weights))
        return cfg


def _describe_network(backbone: Any) -> str:
    """Return the type and size of a backbone's config: ``ResNet depth 50``."""
    sizes = [f"{key} {backbone[key]}" for key in ("depth", "arch") if key in backbone]
    return " ".join([backbone.type, *sizes])


def rows_of_crowded(labels: LabelledData, most: int) -> dict[str, tuple[str, str]]:
    """Return a row of the recipe if images show more than the ``most`` objects that are found."""
    counts = [len(image.objects) for image in labels.images]
    crowded = [count for count in counts if count > most]
    if not crowded:
        return {}
    shown = f"{counted(len(crowded), 'image')} with more, up to {max(crowded):,}; cut into tiles"
    return {"objects": (f"at most {most} are found in an image", shown)}


def labels_for(data: str, task: str, asked: FinetuneOptions) -> LabelledData:
    """Find the labels of a task, with the splits and the share that were asked for."""
    held_out = DEFAULT_VAL_SHARE if asked.val_share is None else asked.val_share
    kept = 1.0 if asked.share is None else asked.share
    labels = find_labels(data, task, val_share=held_out, train_share=kept, seed=asked.seed or 0)
    if missing := missing_characters(labels.classes):
        labels.warnings.append(
            f"pictures have no letter for {len(missing)} characters of the names of classes, such "
            f"as {missing[0]}: they show boxes in their place. All other files have the names."
        )
    return labels


def forecast_finetuning(cfg: Config, work_dir: Path) -> Forecast:
    """Time some steps of a run and a part of its validation, and extrapolate."""
    num_gpus = torch.cuda.device_count()
    num_steps = cfg.param_scheduler[-1].end
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
