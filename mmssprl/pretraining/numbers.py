"""The numbers of each method that a recipe scales."""

import math
from typing import Any

from mmengine.config import Config

from ..errors import UserValueError
from ..models import PretrainingModel, pretraining_class
from ..pyramid import ViewLayout
from .methods import Method
from .recipe import Recipe

LEAST_PROTOTYPES = 30  # as used for 1,200 scenes of 24 categories
IMAGES_PER_PROTOTYPE = 30  # in short runs; photographs were trained with 37 to 75
MOST_FROZEN_PERCENT = 1  # of the steps; the released recipe freezes one epoch

_NEEDS = {
    "map": "a feature map, as of a ResNet, convnext-tiny or swin-tiny",
    "stages": "a ResNet of mmpretrain (resnet18, resnet34, resnet50 or resnet101)",
}
_SHARE_PERCENT = 7
"""Averaging length 1 / (1 - m) as a percentage of the steps, at most the published one. With
m = 0.999 the average would still be near its random start when a short training ends."""


def short_run_options(
    method: Method, cfg: Config, *, num_images: int, step_images: int, epochs: int
) -> dict[str, Any]:
    """Return momentum, queue length and prototypes of short runs, by dotted key of the config."""
    options: dict[str, Any] = {}
    if method.momentum:
        name, published = method.momentum
        options[name] = momentum_for(epochs * (num_images // step_images), published)
    if cfg.model.get("queue_length") is not None:
        options["model.queue_length"] = queue_for(cfg, num_images, step_images)
    if not method.is_users:
        for name in ("num_prototypes", "num_patch_prototypes"):
            if name in cfg.model.get("head", {}):
                limits = (LEAST_PROTOTYPES, cfg.model.head[name])
                k = round_within(num_images / IMAGES_PER_PROTOTYPE, limits)
                options[f"model.head.{name}"] = k
    return options


def momentum_for(num_steps: int, published: float) -> float:
    """Return the momentum that averages over 7 % of the steps, at most the published one."""
    return min(published, round(1 - 1 / max(1.0, num_steps * _SHARE_PERCENT / 100), 4))


def queue_for(cfg: Config, num_images: int, step_images: int) -> int:
    """Return the length of a queue: the config's, at most half of the images, above one step.

    In a longer one, negatives include the key of the query's own image from the epoch before.
    """
    return max(min(cfg.model.queue_length, num_images // 2), step_images + 1)


def check_method(recipe: Recipe) -> None:
    """Raise ValueError if the method cannot take the backbone or split a batch into parts."""
    method, backbone = recipe.method, recipe.backbone
    kind = pretraining_class(recipe.base) or PretrainingModel
    accumulate = recipe.asked.accumulate or 1
    if accumulate > 1 and not kind.takes_num_chunks:
        raise UserValueError(
            f"accumulate must be 1 for {method.key}, but got {accumulate}; it needs its whole "
            "batch at once. Raise batch_size instead."
        )
    gives = {"pooled": True, "map": backbone.gives_map, "stages": backbone.has_stages}
    if not gives[method.needs]:
        raise UserValueError(
            f"{method.key} needs {_NEEDS[method.needs]}, but {backbone.name} does not give that; "
            "choose another backbone."
        )


def scaled_numbers(recipe: Recipe, share: float) -> dict[str, Any]:
    """Return the numbers of the method by dotted key; ``share`` of the base's images are here."""
    model, images, epochs = recipe.base.model, recipe.num_images, recipe.epochs
    layout, step_images, method = recipe.cfg.model.layout, recipe.step_images, recipe.method
    values: dict[str, Any] = {}
    if (recipe.asked.accumulate or 1) > 1:
        values["model.num_chunks"] = recipe.asked.accumulate
    if recipe.is_short:
        size = {"num_images": images, "step_images": step_images, "epochs": epochs}
        values |= short_run_options(method, recipe.base, **size)
    else:
        if method.momentum:
            name, _ = method.momentum
            values[name] = momentum_for(recipe.num_steps, model[name.removeprefix("model.")])
        if "queue_length" in model:
            values["model.queue_length"] = queue_for(recipe.base, images, step_images)
        if "head" in model:
            values |= _prototypes(recipe, share)
    if "queue_length" in model and "fpn_channels" not in model.neck:
        values["model.neck.hid_channels"] = recipe.backbone.channels  # C -> C, as published
    if "bn_groups" in model:
        values["model.bn_groups"] = _groups_for(recipe)
    if "dense_start_epoch" in model:
        values["model.dense_start_epoch"] = min(model.dense_start_epoch, epochs - 1)
    if "dense_weight" in model and not recipe.backbone.gives_map:
        values["model.dense_weight"] = 0.0
    if "patch_px" in model:  # the squares of DetCo's jigsaws
        cell, own = (each.small_px // model.grid for each in (layout, model.layout))
        values["model.patch_px"] = round(cell * model.patch_px / own)
    first = recipe.base.train_dataloader.dataset.pipeline[0]
    if "box_px" in first:  # the regions of MaskCo
        box_px = tuple(round(px * layout.image_px / model.layout.image_px) for px in first.box_px)
        values["train_dataloader.dataset.pipeline.0.box_px"] = box_px
    if (length := values.get("model.queue_length", 0)) > images // 2:
        recipe.warnings.append(
            f"the queue of {length} keys is longer than half of the {images} images: queries meet "
            "keys of their own image as negatives; lower batch_size."
        )
    return values


def _groups_for(recipe: Recipe) -> int:
    """Return BatchNorm's groups per device, of the base's size, at least two in all if possible."""
    batch, base = recipe.batch_size, recipe.base
    images = base.train_dataloader.batch_size // base.model.bn_groups
    # BatchNorm refuses one value per channel, as a group of one image can have.
    counts = [n for n in range(1, batch // 2 + 1) if batch % n == 0]
    apart = [n for n in counts if n * recipe.num_devices >= 2]
    return max((n for n in apart if batch // n >= images), default=min(apart, default=1))


def _prototypes(recipe: Recipe, share: float) -> dict[str, Any]:
    """Return prototypes, queues and freezing of a long run, scaled by its share of the images."""
    base, head = recipe.base, recipe.base.model.head
    values, lengths = {}, []
    for scale, num in enumerate(ViewLayout.build(recipe.cfg.model.layout).patches_per_scale):
        part = "patch_" if scale else ""
        own = head[f"num_{part}prototypes"]
        k = round_within(own * share, (LEAST_PROTOTYPES, own))
        values[f"model.head.num_{part}prototypes"] = k
        queued = head[f"{part}queue_length"] * base.num_gpus * k / own  # on all devices
        length = int(queued / recipe.num_devices)
        lengths.append(length if length >= num * recipe.batch_size else 0)  # no queue below a batch
    start = math.ceil(recipe.epochs * head.queue_start_epoch / base.train_cfg.max_epochs)
    if recipe.step_images < base.auto_scale_lr.base_batch_size:
        start = min(start, 1)
    frozen = min(recipe.steps_per_epoch, recipe.num_steps * MOST_FROZEN_PERCENT // 100)
    return values | {
        "model.head.queue_length": lengths[0],
        "model.head.patch_queue_length": lengths[1:],
        "model.head.queue_start_epoch": start,
        "model.head.freeze_epochs": 0,
        "model.head.freeze_iters": frozen,
    }


def round_within(value: float, limits: tuple[int, int]) -> int:
    """Round a number to a multiple of 10 within two limits."""
    low, high = limits
    return min(high, max(low, 10 * round(value / 10)))
