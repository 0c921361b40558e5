"""From a folder of images and the options of ``pretrain`` to an ordinary config."""

import os
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config

from ..datasets import UnlabeledImages
from ..errors import UserValueError
from ..models import pretraining_class
from ..shipped import shipped
from .methods import DEFAULT, Method, find_method
from .optimizer import schedule
from .recipe import Recipe, choose_recipe
from .usable_images import UsableImages, find_usable_images

MOST_WORKERS = 8
"""Reading processes of each training process."""
MOST_CHECKPOINTS = 20
"""About as many are written in a run, however long it is."""
GPU_LOG_STEPS = 50
"""Steps between two lines of progress, at most an epoch; on a CPU, where a step of a large network
takes long, each has its line."""
KNOBS = ("max_epochs", "warmup_epochs", "batch_size", "base_lr", "data_root", "num_gpus")
"""Names at the top of the base configs, copies of what the recipe replaces."""


def make_config(
    images: str,
    *,
    method: str = DEFAULT,
    variant: str | None = None,
    seed: int = 0,
    **options: Any,
) -> tuple[Config, Recipe, UsableImages]:
    """Look at the images and devices, choose a recipe, and put it into its method's base config.

    Args:
        images: As the argument of ``pretrain``.
        method: As in ``find_method``; so is ``variant``.
        seed: Of all randomness, from 0 to 2**32 - 1.
        options: Of ``choose_recipe``: backbone, epochs, batch_size, accumulate.

    Raises:
        ValueError: Too few usable images, a number out of range, or an option that the method
            refuses.
        FileNotFoundError: No such folder.
    """
    if not 0 <= seed < 2**32:
        raise UserValueError(f"seed must be from 0 to {2**32 - 1}, but got {seed}.")
    chosen = find_method(method, variant)
    cfg = Config.fromfile(shipped(chosen.base_config))
    _check_accumulate(chosen, cfg, options.get("accumulate", 1))
    # Under the path that training will use: the headers of tar files are read once.
    dataset = UnlabeledImages(data_root=str(Path(images).resolve()))
    usable = find_usable_images(dataset, images)
    num_gpus = torch.cuda.device_count()
    recipe = choose_recipe(
        chosen,
        cfg,
        len(dataset),
        usable.short_side_px,
        num_devices=max(1, num_gpus),
        on_gpu=num_gpus > 0,
        **options,
    )
    cfg.layout = cfg.model.layout = recipe.layout
    cfg.model.backbone = dict(recipe.backbone.cfg)
    if recipe.backbone.is_resnet:
        # LARC does not scale parameters of zero norm, see the base config; AdamW gains by them.
        cfg.model.backbone.zero_init_residual = recipe.uses_adamw
    cfg.optim_wrapper.optimizer = recipe.optimizer
    cfg.param_scheduler = schedule(
        recipe.optimizer["lr"], chosen.lr_decay, recipe.epochs, recipe.warmup_epochs
    )
    cfg.merge_from_dict({**_values(recipe, images), **recipe.values})
    cfg.randomness.seed = seed
    for knob in KNOBS:
        cfg.pop(knob, None)
    return cfg, recipe, usable


def _check_accumulate(method: Method, base: Config, accumulate: int) -> None:
    kind = pretraining_class(base)
    if accumulate > 1 and not (kind and kind.takes_num_chunks):
        raise UserValueError(
            f"accumulate must be 1 for {method.key}, which needs its whole batch at once, but got "
            f"{accumulate}; leave it out, and choose a larger --batch-size."
        )


def _values(recipe: Recipe, images: str) -> dict[str, Any]:
    cores = (os.cpu_count() or 1) // recipe.num_devices
    return {
        "model.neck.in_channels": recipe.backbone.channels,
        "train_dataloader.batch_size": recipe.batch_size,
        # One core is left to the training process.
        "train_dataloader.num_workers": min(MOST_WORKERS, max(1, cores - 1)),
        "train_dataloader.pin_memory": recipe.on_gpu,
        "train_dataloader.dataset.data_root": str(Path(images).resolve()),
        "train_dataloader.dataset.pipeline.0.layout": recipe.layout,
        "train_cfg.max_epochs": recipe.epochs,
        "auto_scale_lr.base_batch_size": recipe.step_images,
        "default_hooks.logger.interval": (
            min(GPU_LOG_STEPS, recipe.steps_per_epoch) if recipe.on_gpu else 1
        ),
        "default_hooks.checkpoint.interval": max(1, recipe.epochs // MOST_CHECKPOINTS),
    }
