"""The numbers of each method that a recipe scales.

MoCo v2, the methods built on it and BYOL have a momentum network; SS-PRL and SwAV have prototypes,
queues and freezing.
"""

import math
from typing import Any

from mmengine.config import Config

from ..console.wording import counted
from ..errors import UserValueError
from ..models import pretraining_class
from ..pyramid import ViewLayout
from .chosen import Recipe
from .methods import Method

LEAST_STEPS_PER_EPOCH = 8
"""The chosen batch is small enough for this many updates per epoch."""
LEAST_BATCH = 2
"""Images per device and step; BatchNorm has no statistics of one image."""
QUEUED_SHARE = 1 / 2
"""Longest queue as a fraction of all images. In a longer one, a query's negatives include the key
of the same image from the epoch before."""
LEAST_PROTOTYPES = 30
"""As used for 1,200 scenes of 24 categories."""
IMAGES_PER_PROTOTYPE = 30
"""In short runs; photographs were trained with 37 to 75."""
MOST_FROZEN_PERCENT = 1
"""Longest freezing as a percentage of the steps; the released recipe freezes one epoch."""

_SHARE_PERCENT = 7
"""Averaging length 1 / (1 - m) as a percentage of the steps, at most the published one. With
m = 0.999 the average would still be near its random start when a short training ends."""


def choose_batch(
    num_images: int,
    num_devices: int,
    most: int,
    asked: int | None,
    *,
    least: int = LEAST_BATCH,
    accumulate: int = 1,
) -> tuple[int, str]:
    """Return the images per device and step, in all ``accumulate`` parts together, and the reason.

    A part has ``asked`` images, or a power of 2 from ``least`` to ``most`` that grows with the
    number of images.

    Raises:
        ValueError: A step needs more images than there are, or has one image per device.
    """
    if asked is None:
        fitting = max(min(least, num_images // num_devices), LEAST_BATCH)
        fitting = max(fitting, num_images // (LEAST_STEPS_PER_EPOCH * num_devices))
        part = min(most, 2 ** int(math.log2(fitting)))
        reason = f"at most {most} per device, and at least {LEAST_STEPS_PER_EPOCH} steps per epoch"
    else:
        part, reason = asked, "as asked"
    if accumulate * part * num_devices > num_images or part < LEAST_BATCH:
        times = f" {accumulate} times" if accumulate > 1 else ""
        largest = num_images // (accumulate * num_devices)
        fits = f"choose a batch_size from {LEAST_BATCH} to {largest}, "
        raise UserValueError(
            f"a step needs {LEAST_BATCH} images per device and at most all {num_images} images, "
            f"but got batch_size {part}{times} on {counted(num_devices, 'device')}; "
            f"{fits if largest >= LEAST_BATCH else ''}{'lower accumulate, ' if times else ''}"
            "use fewer GPUs (CUDA_VISIBLE_DEVICES), or add images."
        )
    return accumulate * part, reason


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
    """Return the length of a queue: the config's, at most half of the images, above one step."""
    most = int(num_images * QUEUED_SHARE)
    return max(min(cfg.model.queue_length, most), step_images + 1)


def check_method(recipe: Recipe) -> None:
    """Raise ValueError if the method cannot take the backbone or split a batch into parts."""
    method, backbone = recipe.method, recipe.backbone
    kind = pretraining_class(recipe.base)
    if recipe.num_chunks > 1 and not (kind and kind.takes_num_chunks):
        raise UserValueError(
            f"accumulate must be 1 for {method.key}, but got {recipe.num_chunks}; it needs its "
            "whole batch at once. Raise batch_size instead."
        )
    if method.needs == "stages" and not backbone.has_stages:
        raise UserValueError(
            f"{method.key} needs a ResNet of mmpretrain, but got {backbone.name}; choose "
            "resnet18, resnet34, resnet50 or resnet101."
        )
    if method.needs == "map" and not backbone.gives_map:
        raise UserValueError(
            f"{method.key} needs a feature map, but {backbone.name} gives one pooled feature; "
            "choose a ResNet, convnext-tiny or swin-tiny."
        )


def add_numbers(recipe: Recipe, base_images: int) -> None:
    """Scale the numbers of the method; a published base was trained on ``base_images`` images."""
    model, values = recipe.base.model, recipe.values
    if recipe.num_chunks > 1:
        values["model.num_chunks"] = recipe.num_chunks
    if recipe.is_short:
        values |= short_run_options(
            recipe.method,
            recipe.base,
            num_images=recipe.num_images,
            step_images=recipe.step_images,
            epochs=recipe.epochs,
        )
    else:
        if recipe.method.momentum:
            name, _ = recipe.method.momentum
            values[name] = momentum_for(recipe.num_steps, model[name.removeprefix("model.")])
        if "head" in model:
            _add_prototypes(recipe, recipe.num_images / base_images)
    if "queue_length" in model:
        _add_queue(recipe)
    if "bn_groups" in model:
        values["model.bn_groups"] = _groups_for(recipe)
    if "dense_start_epoch" in model:
        values["model.dense_start_epoch"] = min(model.dense_start_epoch, recipe.epochs - 1)
    if "dense_weight" in model and not recipe.backbone.gives_map:
        values["model.dense_weight"] = 0.0
    if "patch_px" in model:  # the squares of DetCo's jigsaws
        cell, own = (each["small_px"] // model.grid for each in (recipe.layout, model.layout))
        values["model.patch_px"] = round(cell * model.patch_px / own)
    first = recipe.base.train_dataloader.dataset.pipeline[0]
    if "box_px" in first:  # the regions of MaskCo
        scale = recipe.layout["image_px"] / model.layout.image_px
        box_px = tuple(round(side * scale) for side in first.box_px)
        values["train_dataloader.dataset.pipeline.0.box_px"] = box_px


def _groups_for(recipe: Recipe) -> int:
    """Return BatchNorm's groups per device, of the base's size, at least two in all if possible."""
    batch, base = recipe.batch_size, recipe.base
    images = base.train_dataloader.batch_size // base.model.bn_groups
    # BatchNorm refuses one value per channel, as a group of one image can have.
    counts = [n for n in range(1, batch // 2 + 1) if batch % n == 0]
    apart = [n for n in counts if n * recipe.num_devices >= 2]
    return max((n for n in apart if batch // n >= images), default=min(apart, default=1))


def _add_queue(recipe: Recipe) -> None:
    """Add the queue of a contrastive method, and the hidden layer of its head."""
    if "fpn_channels" not in recipe.base.model.neck:
        recipe.values["model.neck.hid_channels"] = recipe.backbone.channels  # C -> C, as published
    length = queue_for(recipe.base, recipe.num_images, recipe.step_images)
    recipe.values["model.queue_length"] = length
    if length > recipe.num_images * QUEUED_SHARE:
        recipe.warnings.append(
            f"the queue of {length} keys is longer than half of the {recipe.num_images} images, as "
            f"a step has {recipe.step_images}. Queries will meet keys of their own image as "
            "negatives; lower batch_size."
        )


def _add_prototypes(recipe: Recipe, share: float) -> None:
    """Add prototypes, queues and freezing of a long run, scaled by its share of the images."""
    base, head, values = recipe.base, recipe.base.model.head, recipe.values
    lengths = []
    for scale, num in enumerate(ViewLayout.build(recipe.layout).patches_per_scale):
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
    values |= {
        "model.head.queue_length": lengths[0],
        "model.head.patch_queue_length": lengths[1:],
        "model.head.queue_start_epoch": start,
        "model.head.freeze_epochs": 0,
        "model.head.freeze_iters": min(
            recipe.steps_per_epoch, recipe.num_steps * MOST_FROZEN_PERCENT // 100
        ),
    }


def round_within(value: float, limits: tuple[int, int]) -> int:
    """Round a number to a multiple of 10 within two limits."""
    low, high = limits
    return min(high, max(low, 10 * round(value / 10)))
