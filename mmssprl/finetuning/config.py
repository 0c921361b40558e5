"""From labels and weights to an ordinary config of mmpretrain, mmdet or mmseg."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config

from ..config.found_config import require
from ..config.run_checks import missing_package
from ..config.shipped import shipped
from ..datasets.labels import LabelledData
from ..engine.adapted_backbone import adapt_backbone, fit_backbone
from ..engine.initial_weights import apply_weights
from ..errors import UserRuntimeError, UserValueError
from ..pretraining.backbones import find_backbone
from ..system.environment import usable_cores
from ..weights import RANDOM, SUPERVISED, read_backbone
from ..weights.backbone import quiet
from .recipe import NUMBERS, Recipe, check_numbers, choose_recipe
from .tasks import Task, make_task, task_class

DEFAULT_BACKBONE = ("resnet50", "resnet18")
"""Of weights without a config, on a GPU and on a CPU."""
MOST_WORKERS = 8
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
_KNOBS = (
    *("base_lr", "random_lr", "frozen_lr", "warmup_share", "most_warmup_iters"),
    *("image_px", "resize_px", "train_pipeline", "test_pipeline", "loader", "norm_cfg"),
    *("num_classes", "fpn_channels", "roi_strides", "rpn_strides", "scale_px", "channels"),
    *("num_convs", "finest_scale_px", "extractor", "prefixes", "known", "crop_px", "crop_size"),
)
"""Names at the top of the base configs that only help to write them."""


def check_options(
    weights: str, task_name: str, *, backbone: str | None = None, **numbers: Any
) -> None:
    """Refuse what is wrong with the options of ``make_config``, before any label is read.

    Raises:
        FileNotFoundError: There are no such weights.
        RuntimeError: The package of the task's models, or of the backbone, is not installed.
        ValueError: A file that holds no weights, a number out of range, or no such backbone.
    """
    require_package(task_class(task_name).scope, f"--task {task_name}")
    check_numbers(weights, **numbers)
    if weights not in (RANDOM, SUPERVISED):
        read_backbone(weights)  # says what is wrong with the file
    if backbone:
        place = 0 if torch.cuda.is_available() else 1
        find_backbone(backbone, [numbers.get("image_px") or NUMBERS[task_name].image_px[place]])


def make_config(
    weights: str,
    data: LabelledData,
    task_name: str,
    *,
    backbone: str | None = None,
    seed: int = 0,
    **options: Any,
) -> tuple[Config, Recipe]:
    """Put weights, classes and a recipe into the base config of a task.

    Args:
        weights: Backbone weights or a training checkpoint, 'random' or 'supervised'.
        data: The labels.
        task_name: 'classify', 'detect' or 'segment'.
        backbone: Name of ``find_backbone``, for weights beside which no config lies.
        seed: Of all randomness.
        options: Of ``choose_recipe``: epochs, batch_size, lr, image_px, freeze. What is wrong
            with them by itself, ``check_options`` tells beforehand.

    Returns:
        The config, without the label files (see ``set_label_files``), and the recipe.

    Raises:
        ValueError: Weights that fit no backbone, a backbone that the task cannot take, or a
            batch size that the images do not fill.
    """
    num_gpus = torch.cuda.device_count()
    kind = task_class(task_name)
    cfg = Config.fromfile(shipped(kind.base_config(on_gpu=num_gpus > 0)))
    recipe = choose_recipe(
        task_name,
        cfg,
        weights,
        len(kind.trained(data.train)),
        num_devices=max(1, num_gpus),
        on_gpu=num_gpus > 0,
        **options,
    )
    _set_backbone(cfg, weights, backbone, recipe.image_px, on_gpu=num_gpus > 0)
    task = make_task(task_name, data.classes, **kind.facts_of(data))
    task.configure(cfg, image_px=recipe.image_px, freeze=recipe.freeze)
    cfg.weights = weights if weights in (RANDOM, SUPERVISED) else str(Path(weights).resolve())
    cfg.randomness.seed = seed
    for knob in _KNOBS:
        cfg.pop(knob, None)
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


def require_package(scope: str, who: str) -> None:
    """Raise RuntimeError if the package with the models of a registry scope is not installed."""
    missing = missing_package(scope)
    if missing:
        raise UserRuntimeError(
            f"{who} needs {missing}, but it is not installed; "
            "pip install -r requirements/transfer.txt."
        )


def task_of(cfg: Config) -> Task:
    """Return the task that a config of ``make_config`` is for.

    Raises:
        ValueError: A config of something else.
    """
    about = cfg.get("finetuning")
    if not about:
        raise UserValueError(
            f"the config must be one of `python -m mmssprl finetune`, but {cfg.filename} is not; "
            "give the work dir of such a run, or a checkpoint in it."
        )
    require(cfg, **_NEEDS)
    return make_task(about.task, list(about.classes), **about.facts)


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


def _set_backbone(
    cfg: Config, weights: str, name: str | None, image_px: int, *, on_gpu: bool
) -> None:
    """Take the backbone of the config beside the weights, or else the one that was named."""
    chosen = name or DEFAULT_BACKBONE[0 if on_gpu else 1]
    with quiet():
        adapt_backbone(cfg, find_backbone(chosen, [image_px]).cfg)
    if weights not in (RANDOM, SUPERVISED):
        fit_backbone(cfg, weights, adapt=name is None)


def _set_numbers(cfg: Config, recipe: Recipe) -> None:
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
