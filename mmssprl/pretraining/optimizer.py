"""Choose the optimizer of a training: the published one, or AdamW for short runs."""

from typing import Any

from mmengine.config import Config

from ..wording import counted
from .anchor import COCO_BATCH
from .backbones import Backbone
from .methods import Method, Row

LONG_RUN_STEPS = 50_000
"""Updates at the published rate from which on the published optimizer is chosen; what moves the
weights is updates x lr. The published COCO runs have 129,200. Found for LARC, which stays at ln K
in short runs, or long ones at a lower rate, where AdamW learns: on 800 generated scenes it had not
left it after 3,650 updates at lr 0.15. The other methods change over at the same place, so that
methods are trained alike."""
ADAMW = {"type": "AdamW", "weight_decay": 1e-4}
ADAMW_BATCH = 64
"""Images of an update up to which AdamW's learning rate grows with them."""

MOST_WARMUP = 1 / 5
"""Of the epochs."""
WARMUP_START = 1e-4
"""First rate of a warm-up as a share of the rate that it leads to."""


def choose_optimizer(
    method: Method,
    base: Config,
    backbone: Backbone,
    *,
    step_images: int,
    epochs: int,
    steps_per_epoch: int,
    asked_lr: float | None = None,
) -> tuple[dict[str, Any], int, Row]:
    """Return the optimizer's config, the epochs of its warm-up, and what to print.

    Args:
        method: What is trained.
        base: Its base config, whose optimizer is for ``COCO_BATCH`` images.
        backbone: What is trained.
        step_images: Images of an update, of all devices.
        epochs: Of the training.
        steps_per_epoch: Updates of an epoch.
        asked_lr: Replaces the rate that is chosen.
    """
    published = base.optim_wrapper.optimizer.to_dict()
    coco_lr = published["lr"]
    lr = coco_lr * step_images / COCO_BATCH
    num_steps = epochs * steps_per_epoch
    steps_at_coco_lr = round(num_steps * lr / coco_lr)
    why_adamw = None
    if not backbone.is_resnet:
        why_adamw = "other networks than the published ResNets are trained with AdamW"
    elif steps_at_coco_lr < LONG_RUN_STEPS:
        why_adamw = (
            f"{num_steps} updates at {published['type']}'s lr {lr:.3g} are worth "
            f"{steps_at_coco_lr} at {coco_lr:g}, too few (below {LONG_RUN_STEPS})"
        )
    if why_adamw is None:
        optimizer, wanted_warmup = {**published, "lr": lr}, _warmup_epochs(base)
        rule = "the linear rule over the images of an update"
        reason = f"{coco_lr:g} x {step_images} / {COCO_BATCH}, {rule}"
    else:
        lr = method.adamw_lr * min(1, step_images / ADAMW_BATCH)
        optimizer, wanted_warmup = {**ADAMW, "lr": lr}, method.adamw_warmup_epochs
        reason = f"{why_adamw}; {method.adamw_lr} x min(1, {step_images} / {ADAMW_BATCH})"
    if asked_lr is not None:
        optimizer["lr"] = lr = asked_lr
        reason = f"{why_adamw}; the rate as asked" if why_adamw else "the rate as asked"
    warmup_epochs = min(wanted_warmup, int(epochs * MOST_WARMUP))
    rises = f" after {counted(warmup_epochs, 'epoch')} of warm-up" if warmup_epochs else ""
    return optimizer, warmup_epochs, Row(f"{optimizer['type']}, lr {lr:.3g}, cosine{rises}", reason)


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


def _warmup_epochs(base: Config) -> int:
    """Return the epochs of the published warm-up, 0 without one."""
    first = base.param_scheduler[0]
    return first.end if first.type == "LinearLR" else 0
