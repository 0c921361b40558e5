"""Choose the optimizer of a training: the published one, or AdamW for short runs."""

from typing import Any

from ..console.wording import counted
from .backbones import Backbone
from .methods import RecipeMethod, RecipeRow
from .methods.method import COCO_IMAGES, between, way_to_imagenet

LONG_RUN = 0.9
"""Share of the images seen in the published COCO training (200 epochs of 82,783) from which on the
published optimizer is chosen. With its rate in proportion to the images of an update, updates x
rate, by which it moves the weights, is in proportion to the images seen. Shorter runs are AdamW's:
it learned in all that were compared, of hundreds to thousands of updates, where LARC's features
were worse than random ones after 4,900 updates at lr 0.3 (docs/results/larc); no run in between has
shown where the published optimizers come into their own. The tenth less is for epochs that are
rounded. All methods change over at the same place, so that they are trained alike."""
ADAMW = {"type": "AdamW", "weight_decay": 1e-4}
ADAMW_BATCH = 64
"""Images of an update up to which AdamW's learning rate grows with them."""
MOST_UNTUNED_LR = 1e-3
"""Highest rate of AdamW for other networks than ResNets, whose rates nothing here was tuned for."""

LARGE_BATCH_WARMUP_EPOCHS = 10
"""Before the cosine of the published optimizer with more images of an update than in any published
training here; SwAV's and BYOL's for 4,096 images."""
MOST_WARMUP = 1 / 5
"""Of the epochs."""
WARMUP_START = 1e-4
"""First rate of a warm-up as a share of the rate that it leads to."""


def choose_optimizer(
    method: RecipeMethod,
    backbone: Backbone,
    *,
    num_images: int,
    step_images: int,
    epochs: int,
    steps_per_epoch: int,
    asked_lr: float | None = None,
) -> tuple[dict[str, Any], int, RecipeRow]:
    """Return the optimizer's config, the epochs of its warm-up, and what to print.

    ``step_images`` are those of an update, of all devices; ``asked_lr`` replaces the chosen rate.
    """
    published, wanted_warmup = _published(method, num_images)
    needed = LONG_RUN * method.coco.train_cfg.max_epochs * COCO_IMAGES
    seen = epochs * steps_per_epoch * step_images
    if backbone.is_resnet and seen >= needed:
        lr = published["lr"] * step_images
        optimizer = {**published, "lr": lr}
        reason = "the published rate for as many images of an update"
        if step_images > method.imagenet.auto_scale_lr.base_batch_size:
            wanted_warmup = max(wanted_warmup, LARGE_BATCH_WARMUP_EPOCHS)
            reason = "the published rate, with a warm-up for large batches"
    else:
        rate = method.adamw_lr if backbone.is_resnet else min(MOST_UNTUNED_LR, method.adamw_lr)
        lr = rate * min(1, step_images / ADAMW_BATCH)
        optimizer, wanted_warmup = {**ADAMW, "lr": lr}, method.adamw_warmup_epochs
        reason = "AdamW trains all networks but ResNets"
        if backbone.is_resnet:
            reason = f"AdamW below {needed / 1e6:.3g} M images seen, here {seen / 1e6:.3g} M"
    if asked_lr is not None:
        optimizer["lr"] = lr = asked_lr
        reason = "the rate as asked"
    warmup_epochs = min(wanted_warmup, int(epochs * MOST_WARMUP))
    rises = f" after {counted(warmup_epochs, 'epoch')} of warm-up" if warmup_epochs else ""
    return (
        optimizer,
        warmup_epochs,
        RecipeRow(f"{optimizer['type']}, lr {lr:.3g}, cosine{rises}", reason),
    )


def schedule(lr: float, lr_decay: float, epochs: int, warmup_epochs: int) -> list[dict[str, Any]]:
    """Return the config of a linear warm-up, if any, and a cosine from ``lr`` to its fraction."""
    unit = {"by_epoch": True, "convert_to_iter_based": True}
    cosine = {
        "type": "CosineAnnealingLR",
        "T_max": epochs - warmup_epochs,
        "eta_min": lr / lr_decay,
        **unit,
    }
    if not warmup_epochs:
        return [cosine]
    rise = {"type": "LinearLR", "start_factor": WARMUP_START, "end": warmup_epochs, **unit}
    return [rise, {**cosine, "begin": warmup_epochs}]


def _published(method: RecipeMethod, num_images: int) -> tuple[dict[str, Any], int]:
    """Return the published optimizer, its lr for one image of an update; and epochs of warm-up.

    Where both trainings have one optimizer, its rate lies between theirs; else the nearer one's is
    taken.
    """
    coco, imagenet = method.coco, method.imagenet
    near = imagenet if way_to_imagenet(num_images) >= 1 / 2 else coco
    optimizer, of_coco, of_imagenet = (
        cfg.optim_wrapper.optimizer.to_dict() for cfg in (near, coco, imagenet)
    )
    rate = optimizer["lr"] / near.auto_scale_lr.base_batch_size
    if of_coco["type"] == of_imagenet["type"]:
        rate = between(
            of_coco["lr"] / coco.auto_scale_lr.base_batch_size,
            of_imagenet["lr"] / imagenet.auto_scale_lr.base_batch_size,
            num_images,
        )
    first = near.param_scheduler[0]
    warmup_epochs = first.end if first.type == "LinearLR" else 0
    return {**optimizer, "lr": rate}, warmup_epochs
