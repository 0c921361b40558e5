"""From labels and weights to an ordinary config of mmpretrain, mmdet or mmseg."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config

from ..config.found_config import require
from ..config.keys import used_keys
from ..config.run_checks import missing_package
from ..config.shipped import shipped
from ..console.options import check_ranges
from ..datasets.labels import LabelledData
from ..engine.initial_weights import adapt_backbone, apply_weights, fit_backbone
from ..errors import UserRuntimeError, UserValueError
from ..pretraining.backbones import find_backbone
from ..pyramid import check_px
from ..system.environment import usable_cores
from ..weights import RANDOM, SUPERVISED, read_backbone
from ..weights.backbone import quiet
from .options import FinetuneOptions
from .recipe import FinetuneRecipe, choose_recipe
from .tasks import TASKS, Task

DEFAULT_BACKBONE = ("resnet50", "resnet18")
"""Of weights without a config, on a GPU and on a CPU."""
MOST_WORKERS = 8
_USUAL_PX = 224
"""Side that every backbone takes."""
_NEEDS: dict[str, Any] = {
    "model.type": str,
    "default_scope": str,
    "test_dataloader.num_workers": int,
    "test_dataloader.dataset.pipeline": (list, tuple),
    "finetuning.task": str,
    "finetuning.classes": (list, tuple),
    "finetuning.facts": dict,
}
"""What a trained model is built from."""


def check_options(weights: str, task: str, asked: FinetuneOptions) -> None:
    """Refuse weights, task and options that do not fit, before labels are read."""
    if task not in TASKS:
        raise UserValueError(f"task must be one of {', '.join(TASKS)}, but got {task!r}.")
    require_package(TASKS[task].scope, f"task {task}")
    check_ranges(asked)
    if asked.image_px is not None:
        check_px("image_px", asked.image_px)
    if asked.freeze and weights == RANDOM:
        raise UserValueError(
            "freeze keeps what the weights have learned, but they are random; give a file, or "
            "leave it out."
        )
    if weights not in (RANDOM, SUPERVISED):
        read_backbone(weights)  # says what is wrong with the file
    if asked.backbone:
        find_backbone(asked.backbone, [asked.image_px or _USUAL_PX])


def require_package(scope: str, who: str) -> None:
    """Raise RuntimeError if the package with the models of a registry scope is not installed."""
    missing = missing_package(scope)
    if missing:
        raise UserRuntimeError(
            f"{who} needs {missing}, but it is not installed; "
            "pip install -r requirements/transfer.txt."
        )


def make_config(
    weights: str, data: LabelledData, task_name: str, asked: FinetuneOptions
) -> tuple[Config, FinetuneRecipe]:
    """Put weights, classes and a recipe into the base config of a task.

    The options have been checked; the label files come later, see ``set_label_files``.
    """
    num_gpus = torch.cuda.device_count()
    on_gpu = num_gpus > 0
    kind = TASKS[task_name]
    cfg = Config.fromfile(shipped(kind.base_config(on_gpu=on_gpu)))
    recipe = choose_recipe(
        weights,
        asked,
        cfg,
        len(kind.trained(data.train)),
        num_devices=max(1, num_gpus),
        on_gpu=on_gpu,
    )
    from_file = weights not in (RANDOM, SUPERVISED)
    with quiet():
        # The backbone of the config beside the weights comes after it, unless one was named.
        name = asked.backbone or DEFAULT_BACKBONE[0 if on_gpu else 1]
        adapt_backbone(cfg, find_backbone(name, [recipe.image_px]).cfg)
    if from_file:
        fit_backbone(cfg, weights, adapt=asked.backbone is None)
    task = kind(data.classes, **kind.facts_of(data))
    task.configure(cfg, recipe.image_px)
    if asked.freeze and kind.scope == "mmssprl":
        cfg.model.frozen_backbone = True
    elif asked.freeze:  # its statistics too
        stages = cfg.model.backbone.get("num_stages", 4)
        cfg.model.backbone.update(frozen_stages=stages, norm_eval=True)
    cfg.weights = str(Path(weights).resolve()) if from_file else weights
    cfg.randomness.seed = asked.seed or 0
    for knob in cfg.keys() - used_keys(cfg):  # which only helped to write it
        cfg.pop(knob)
    cfg.finetuning = {
        "task": task_name,
        "classes": data.classes,
        "facts": task.facts,
        "data_root": str(data.root),
        "layout": data.layout,
    }
    _set_numbers(cfg, recipe)
    with quiet():
        apply_weights(cfg.copy(), None, adapt=False)  # refuses what the training would refuse
    return cfg, recipe


def task_of(cfg: Config) -> Task:
    """Return the task of a config of ``make_config``; ValueError if it is of something else."""
    about = cfg.get("finetuning")
    if not about:
        raise UserValueError(
            f"the config must be one of `python -m mmssprl finetune`, but {cfg.filename} is not; "
            "give the work dir of such a run, or a checkpoint in it."
        )
    require(cfg, **_NEEDS)
    return TASKS[about.task](about.classes, **about.facts)


def set_label_files(cfg: Config, folder: Path) -> None:
    """Let a config read the label files in a folder, see ``write_labels``."""
    root = cfg.finetuning.data_root
    for split, file in (("train", "train.json"), ("val", "val.json"), ("test", "val.json")):
        path = str((folder / file).resolve())
        dataset = cfg[f"{split}_dataloader"].dataset
        dataset.ann_file = path
        prefix = dataset.get("data_prefix")
        is_dict = isinstance(prefix, Mapping)
        dataset.data_prefix = dict.fromkeys(prefix, root) if is_dict else root
        evaluator = cfg.get(f"{split}_evaluator")
        if evaluator and "ann_file" in evaluator:
            evaluator.ann_file = path


def _set_numbers(cfg: Config, recipe: FinetuneRecipe) -> None:
    cores = usable_cores() // recipe.num_devices
    # On a CPU one core is left to the training process.
    num_workers = min(MOST_WORKERS, max(1, cores - 1))
    num_steps = recipe.epochs * recipe.steps_per_epoch
    cfg.optim_wrapper.optimizer.lr = recipe.lr
    cosine = {
        "type": "CosineAnnealingLR",
        "by_epoch": False,
        "begin": recipe.warmup_iters,
        "T_max": num_steps - recipe.warmup_iters,
        "end": num_steps,
    }
    rise = {"type": "LinearLR", "by_epoch": False, "start_factor": 0.01, "end": recipe.warmup_iters}
    cfg.param_scheduler = [rise, cosine] if recipe.warmup_iters else [cosine]
    cfg.train_cfg.update(max_epochs=recipe.epochs, val_interval=recipe.val_interval)
    cfg.train_dataloader.batch_size = recipe.batch_size
    for split in ("train", "val", "test"):
        cfg[f"{split}_dataloader"].num_workers = num_workers
        cfg[f"{split}_dataloader"].pin_memory = recipe.on_gpu
    cfg.default_hooks.logger.interval = min(50, recipe.steps_per_epoch)
    cfg.default_hooks.checkpoint.update(interval=recipe.val_interval, max_keep_ckpts=1)
