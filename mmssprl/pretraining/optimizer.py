"""Choose the optimizer of a training: the published one, or AdamW for short runs."""

from typing import Any

from mmengine.config import Config

from ..console.wording import counted
from .anchor import COCO_IMAGES, between, way_to_imagenet
from .backbones import Backbone
from .methods import RecipeMethod, RecipeRow

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
    coco: Config,
    imagenet: Config,
    backbone: Backbone,
    *,
    num_images: int,
    step_images: int,
    epochs: int,
    steps_per_epoch: int,
    asked_lr: float | None = None,
) -> tuple[dict[str, Any], int, RecipeRow]:
    """Return the optimizer's config, the epochs of its warm-up, and what to print.

    Args:
        method: What is trained.
        coco: The config of its published training there.
        imagenet: The same for ImageNet.
        backbone: What is trained.
        num_images: Images to train on.
        step_images: Images of an update, of all devices.
        epochs: Of the training.
        steps_per_epoch: Updates of an epoch.
        asked_lr: Replaces the rate that is chosen.
    """
    published, wanted_warmup, origin = _published(coco, imagenet, num_images)
    needed = LONG_RUN * coco.train_cfg.max_epochs * COCO_IMAGES
    seen = epochs * steps_per_epoch * step_images
    why_adamw = None
    if not backbone.is_resnet:
        why_adamw = "other networks than the published ResNets are trained with AdamW"
    elif seen < needed:
        why_adamw = (
            f"{seen / 1e6:.3g} M images seen, {published['type']} needs {needed / 1e6:.3g} M "
            f"({LONG_RUN:.0%} of its COCO training)"
        )
    if why_adamw is None:
        rate = published["lr"]
        lr = rate * step_images
        optimizer = {**published, "lr": lr}
        largest = imagenet.auto_scale_lr.base_batch_size
        reason = f"{rate * largest:.3g} x {step_images} / {largest}, {origin}"
        if step_images > largest:
            wanted_warmup = max(wanted_warmup, LARGE_BATCH_WARMUP_EPOCHS)
            reason += f"; a warm-up as for large batches, above {largest} images"
    else:
        rate = method.adamw_lr if backbone.is_resnet else min(MOST_UNTUNED_LR, method.adamw_lr)
        lr = rate * min(1, step_images / ADAMW_BATCH)
        optimizer, wanted_warmup = {**ADAMW, "lr": lr}, method.adamw_warmup_epochs
        reason = f"{why_adamw}; {rate} x min(1, {step_images} / {ADAMW_BATCH})"
    if asked_lr is not None:
        optimizer["lr"] = lr = asked_lr
        reason = f"{why_adamw}; the rate as asked" if why_adamw else "the rate as asked"
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


def _published(coco: Config, imagenet: Config, num_images: int) -> tuple[dict[str, Any], int, str]:
    """Return the published optimizer, its lr for one image of an update; epochs of warm-up; why.

    Where both trainings have one optimizer, its rate lies between theirs; of two optimizers that of
    the training with the nearer number of images is taken as it is.
    """
    way = way_to_imagenet(num_images)
    near, rate_of = (imagenet, "as on ImageNet") if way >= 1 / 2 else (coco, "as on COCO")
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
        rate_of = "between COCO's and ImageNet's" if 0 < way < 1 else rate_of
    first = near.param_scheduler[0]
    warmup_epochs = first.end if first.type == "LinearLR" else 0
    return {**optimizer, "lr": rate}, warmup_epochs, f"the linear rule, the rate {rate_of}"
