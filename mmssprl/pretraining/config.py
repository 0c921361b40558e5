"""From a folder of images and the options of ``pretrain`` to an ordinary config."""

import os
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config

from ..datasets import UnlabeledImages
from ..errors import UserValueError
from ..pyramid import ViewLayout
from ..shipped import shipped
from .recipe import Recipe, choose_recipe
from .usable_images import UsableImages, find_usable_images

BASE_CONFIGS = {
    "paper": "configs/ssprl/ssprl_resnet50_2xb64-coslr-200e_coco.py",
    "released": "configs/ssprl/ssprl-released_resnet50_2xb64-coslr-200e_coco.py",
}
"""What the recipe's numbers are put into, by variant."""
BACKBONES: dict[str, tuple[dict[str, Any], int]] = {
    "resnet18": ({"type": "ResNet", "depth": 18}, 512),
    "resnet50": ({"type": "ResNet", "depth": 50}, 2048),
    "vit-small": (
        {
            "type": "VisionTransformer",
            "arch": "deit-small",
            "img_size": 224,
            "patch_size": 16,
            "out_type": "avg_featmap",
        },
        384,
    ),
    "swin-tiny": ({"type": "SwinTransformer", "arch": "tiny", "pad_small_map": True}, 768),
}
"""mmpretrain's config of each backbone, and the size of its pooled features."""

MOST_WORKERS = 8
"""Reading processes of each training process."""
LR_DECAY = 1000
"""First learning rate / the last one of the cosine, as in the released recipe."""
HUE_SHARE = 1 / 4
"""Hue's jitter as a share of the others', as in the released recipe."""
MOST_CHECKPOINTS = 20
"""About as many are written in a run, however long it is."""
GPU_LOG_STEPS = 50
"""Steps between two lines of progress, at most an epoch; on a CPU, where a step of a large network
takes long, each has its line."""
KNOBS = ("max_epochs", "batch_size", "base_lr", "data_root", "num_gpus")
"""Names at the top of the base configs, copies of what the recipe replaces."""


def make_config(
    images: str, *, variant: str = "paper", seed: int = 0, **options: Any
) -> tuple[Config, Recipe, UsableImages]:
    """Look at the images and devices, choose a recipe, and put it into the config of its variant.

    Args:
        images: As the argument of ``pretrain``.
        variant: Key of ``BASE_CONFIGS``.
        seed: Of all randomness, from 0 to 2**32 - 1.
        options: Of ``choose_recipe``: backbone, epochs, batch_size, accumulate.

    Raises:
        ValueError: Too few usable images, or a number out of range.
        FileNotFoundError: No such folder.
    """
    if not 0 <= seed < 2**32:
        raise UserValueError(f"seed must be from 0 to {2**32 - 1}, but got {seed}.")
    # Under the path that training will use: the headers of tar files are read once.
    dataset = UnlabeledImages(data_root=str(Path(images).resolve()))
    usable = find_usable_images(dataset, images)
    num_gpus = torch.cuda.device_count()
    cfg = Config.fromfile(shipped(BASE_CONFIGS[variant]))
    recipe = choose_recipe(
        len(dataset),
        usable.short_side_px,
        cfg.model.layout.to_dict(),
        num_devices=max(1, num_gpus),
        on_gpu=num_gpus > 0,
        variant=variant,
        **options,
    )
    cfg.layout = cfg.model.layout = recipe.layout
    backbone, channels = BACKBONES[recipe.backbone]
    if backbone["type"] == "ResNet":
        # LARC does not scale parameters of zero norm, see the base config; AdamW gains by them.
        backbone = {**backbone, "zero_init_residual": recipe.optimizer["type"] != "LARC"}
    cfg.model.backbone = backbone
    cfg.optim_wrapper.optimizer = recipe.optimizer
    cfg.merge_from_dict(_values(recipe, images, channels, on_gpu=num_gpus > 0))
    cfg.randomness.seed = seed
    for knob in KNOBS:
        cfg.pop(knob)
    return cfg, recipe, usable


def describe(recipe: Recipe, source: str) -> str:
    """Return the recipe for images of ``source`` as lines of choice and reason, warnings last."""
    layout, optimizer = recipe.layout, recipe.optimizer
    views = [f"2 x {layout['image_px']} px"]
    if layout["num_small"]:
        views.append(f"{layout['num_small']} x {layout['small_px']} px")
    for level in ViewLayout.build(layout).levels:
        out_of = f" of {level.num_cells}" if level.is_sampled else ""
        views.append(f"2 x {level.num_patches}{out_of} x {level.patch_px} px")
    batch = f"{recipe.batch_size} images x {recipe.num_devices} device(s)"
    if recipe.num_chunks > 1:
        batch += f", in {recipe.num_chunks} parts"
    queues = " / ".join(map(str, [recipe.queue_length, *recipe.patch_queue_length]))
    lines = {
        "views": ", ".join(views),
        "batch": batch,
        "epochs": f"{recipe.epochs}, {recipe.epochs * recipe.steps_per_epoch} updates",
        "optimizer": f"{optimizer['type']}, lr {optimizer['lr']:.3g}, cosine",
        "targets": f"epsilon {recipe.epsilon}, colour jitter {recipe.jitter}",
        "prototypes": f"{recipe.num_prototypes} / {recipe.num_patch_prototypes}",
        "queues": f"{queues} rows from epoch {recipe.queue_start_epoch}",
        "freezing": f"{recipe.freeze_iters} steps",
    }
    width = max(map(len, lines.values()))
    title = f"SS-PRL ({recipe.variant} form), {recipe.backbone}, images of {source}"
    rows = [f"  {name:<11}{text:<{width}}  {recipe.reasons[name]}" for name, text in lines.items()]
    return "\n".join([title, *rows, *(f"warning: {text}" for text in recipe.warnings)])


def _values(recipe: Recipe, images: str, channels: int, *, on_gpu: bool) -> dict[str, Any]:
    cores = (os.cpu_count() or 1) // recipe.num_devices
    return {
        "model.neck.in_channels": channels,
        "model.data_preprocessor.brightness": recipe.jitter,
        "model.data_preprocessor.contrast": recipe.jitter,
        "model.data_preprocessor.saturation": recipe.jitter,
        "model.data_preprocessor.hue": recipe.jitter * HUE_SHARE,
        "model.num_chunks": recipe.num_chunks,
        "model.head.epsilon": recipe.epsilon,
        "model.head.num_prototypes": recipe.num_prototypes,
        "model.head.num_patch_prototypes": recipe.num_patch_prototypes,
        "model.head.queue_length": recipe.queue_length,
        "model.head.patch_queue_length": recipe.patch_queue_length,
        "model.head.queue_start_epoch": recipe.queue_start_epoch,
        "model.head.freeze_epochs": 0,
        "model.head.freeze_iters": recipe.freeze_iters,
        "train_dataloader.batch_size": recipe.batch_size,
        # One core is left to the training process.
        "train_dataloader.num_workers": min(MOST_WORKERS, max(1, cores - 1)),
        "train_dataloader.pin_memory": on_gpu,
        "train_dataloader.dataset.data_root": str(Path(images).resolve()),
        "train_dataloader.dataset.pipeline.0.layout": recipe.layout,
        "train_cfg.max_epochs": recipe.epochs,
        "param_scheduler.0.T_max": recipe.epochs,
        "param_scheduler.0.eta_min": recipe.optimizer["lr"] / LR_DECAY,
        "auto_scale_lr.base_batch_size": recipe.batch_size * recipe.num_devices,
        "default_hooks.logger.interval": (
            min(GPU_LOG_STEPS, recipe.steps_per_epoch) if on_gpu else 1
        ),
        "default_hooks.checkpoint.interval": max(1, recipe.epochs // MOST_CHECKPOINTS),
    }
