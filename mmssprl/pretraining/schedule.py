"""The learning rate of a pre-training and its schedule: short runs', or a published training's."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mmengine.config import Config

from ..models import TrainingSize
from .methods import Method
from .recipe import Recipe

COCO_IMAGES = 82_783
LONG_RUN = 0.9
"""Runs that see fewer images than this share of the published COCO training (200 x 82,783) are
short. The published lr is proportional to the batch, so the sum of the updates is proportional to
the images seen. In all comparisons, of hundreds to thousands of updates, AdamW learned; LARC's
features after 4,900 updates at lr 0.3 were worse than random. Where LARC overtakes was not
measured. The 10 % allow for rounded epochs. All methods switch at the same point."""
MOST_UNTUNED_LR = 1e-3  # of AdamW for networks other than ResNets, for which none was tuned
LARGE_BATCH_WARMUP_EPOCHS = 10  # as in SwAV and BYOL for 4,096 images; above the published batches
MOST_WARMUP = 1 / 5  # of all epochs
WARMUP_START = 1e-4  # first lr of a long run, as a fraction of the final one
SHORT_WARMUP_START = 0.01  # the same of a short run


class Rate(NamedTuple):
    """A learning rate with its warm-up, and the reason for it."""

    lr: float
    reason: str
    warmup_epochs: int
    warmup_start: float = SHORT_WARMUP_START
    own_final_lr: float = 0.0  # of the config with the optimizer to scale


def needed_images(method: Method) -> float:
    """Return how many images, in all epochs, a run must see to follow a published training."""
    return LONG_RUN * method.coco.train_cfg.max_epochs * COCO_IMAGES


def choose_rate(recipe: Recipe) -> Rate:
    """Choose the rate of a training: as asked, as published, or for short runs."""
    is_published = recipe.backbone.is_resnet and not recipe.is_short
    rate = _published_rate(recipe) if is_published else _short_rate(recipe)
    if recipe.asked.lr is not None:
        rate = rate._replace(lr=recipe.asked.lr, reason="the rate as asked")
    return rate


def _published_rate(recipe: Recipe) -> Rate:
    """Scale the published lr by the images per update."""
    base = recipe.base
    lr = base.optim_wrapper.optimizer.lr * recipe.step_images / base.auto_scale_lr.base_batch_size
    reason = "the published rate, scaled to the images per update"
    first = base.param_scheduler[0]
    last = base.param_scheduler[-1]
    warmup = first.end if first.type == "LinearLR" else 0
    if recipe.step_images > recipe.method.imagenet.auto_scale_lr.base_batch_size:
        warmup = max(warmup, LARGE_BATCH_WARMUP_EPOCHS)
        reason = "the published rate, with a warm-up for large batches"
    warmup = min(warmup, int(recipe.epochs * MOST_WARMUP))
    return Rate(lr, reason, warmup, WARMUP_START, last.get("eta_min", 0))


def _short_rate(recipe: Recipe) -> Rate:
    """Return AdamW's lr, which is constant above 64 images per update."""
    source = recipe.optimizer_base
    lr = source.optim_wrapper.optimizer.lr
    lr *= min(1, recipe.step_images / source.train_dataloader.batch_size)
    reason = "the rate of short runs"
    if not recipe.method.learns_from_teacher:
        reason += f"; below {needed_images(recipe.method) / 1e6:.3g} M images seen"
    if not recipe.backbone.is_resnet:
        lr = min(MOST_UNTUNED_LR, lr)
        reason = "AdamW trains all networks but ResNets"
    return Rate(lr, reason, int(recipe.epochs > 1))


def schedule_of(rate: Rate, epochs: int, own_lr: float) -> list[dict[str, Any]]:
    """Return the schedule of a rate that is scaled from ``own_lr``."""
    final_lr = rate.lr * rate.own_final_lr / own_lr
    return _schedule(epochs, rate.warmup_epochs, rate.warmup_start, final_lr)


def short_schedule(epochs: int) -> list[dict[str, Any]]:
    """Return the schedule of short runs: one epoch of linear warm-up, then a cosine to 0.

    A run of one epoch has no warm-up. `compare` trains all methods with this schedule.
    """
    return _schedule(epochs, int(epochs > 1), SHORT_WARMUP_START)


def _schedule(
    epochs: int, warmup: int, start_factor: float, eta_min: float = 0.0
) -> list[dict[str, Any]]:
    unit = {"by_epoch": True, "convert_to_iter_based": True}
    linear = {"type": "LinearLR", "start_factor": start_factor, "begin": 0, "end": warmup, **unit}
    length = {"begin": warmup, "end": epochs, "T_max": epochs - warmup}
    cosine = {"type": "CosineAnnealingLR", **length, **unit}
    if eta_min:
        cosine["eta_min"] = eta_min
    return [linear, cosine] if warmup else [cosine]


def training_values(
    method: Method,
    base: Config,
    size: TrainingSize,
    *,
    lr: float,
    schedule: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return rate, schedule and the method's numbers, by dotted key of the base config.

    `pretrain` and `compare` scale their configs by these.
    """
    return {
        "param_scheduler": schedule,
        "optim_wrapper.optimizer.lr": lr,
        **method.scaled(base, size),
    }
