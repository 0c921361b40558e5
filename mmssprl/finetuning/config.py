"""From labels and weights to an ordinary config of mmpretrain, mmdet or mmseg."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config

from ..config.found_config import require
from ..config.shipped import shipped
from ..datasets.labels import LabelledData
from ..engine.adapted_backbone import adapt_backbone, fit_backbone
from ..engine.initial_weights import apply_weights
from ..errors import UserValueError
from ..pretraining.backbones import find_backbone
from ..system.environment import usable_cores
from ..weights import RANDOM, SUPERVISED
from ..weights.backbone import quiet
from .options import Options
from .recipe import FinetuneRecipe, choose_recipe
from .tasks import TASKS, Task

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


def make_config(asked: Options, data: LabelledData) -> tuple[Config, FinetuneRecipe]:
    """Put weights, classes and a recipe into the base config of a task.

    Args:
        asked: The options, checked.
        data: The labels.

    Returns:
        The config, without the label files (see ``set_label_files``), and the recipe.

    Raises:
        ValueError: Weights that fit no backbone, a backbone that the task cannot take, or a
            batch size that the images do not fill.
    """
    num_gpus = torch.cuda.device_count()
    on_gpu = num_gpus > 0
    kind = TASKS[asked.task]
    cfg = Config.fromfile(shipped(kind.base_config(on_gpu=on_gpu)))
    num_images = len(kind.trained(data.train))
    recipe = choose_recipe(asked, cfg, num_images, num_devices=max(1, num_gpus), on_gpu=on_gpu)
    from_file = asked.weights not in (RANDOM, SUPERVISED)
    with quiet():
        # The backbone of the config beside the weights comes after it, unless one was named.
        name = asked.backbone or DEFAULT_BACKBONE[0 if on_gpu else 1]
        adapt_backbone(cfg, find_backbone(name, [recipe.image_px]).cfg)
    if from_file:
        fit_backbone(cfg, asked.weights, adapt=asked.backbone is None)
    task = kind(data.classes, **kind.facts_of(data))
    task.configure(cfg, image_px=recipe.image_px, freeze=asked.freeze)
    cfg.weights = str(Path(asked.weights).resolve()) if from_file else asked.weights
    cfg.randomness.seed = asked.seed
    for knob in _KNOBS:
        cfg.pop(knob, None)
    cfg.finetuning = {
        "task": asked.task,
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
