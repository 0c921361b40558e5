"""Choose a pre-training recipe from the number of images and devices.

A recipe scales an existing training:

* Short runs take the method's form at size ``photos-gpu``, which `compare` trains, too.
* Runs that see as many images as the published training on COCO (82,783 images, 200 epochs, batch
  128 over 2 GPUs) take that training.
* From 300,000 images they take the training on ImageNet (1,281,167 images, 100 epochs, batch 256).

This module chooses what all methods share; ``numbers`` chooses the rest.
"""

from typing import Any

from ..console.options import check_ranges
from ..console.wording import counted
from ..pyramid import ViewLayout
from ..weights.backbone import SUPERVISED
from .backbones import find_backbone
from .chosen import Recipe, RecipeRow
from .continuation import is_anchored
from .methods import WHY_DEFAULT, Method, find_method
from .numbers import add_numbers, check_method, choose_batch, round_within
from .options import DEFAULT_BACKBONE, PretrainOptions
from .views import choose_views, size_step, views_text

COCO_IMAGES = 82_783
IMAGENET_IMAGES = 1_281_167
LIKE_IMAGENET = 300_000
"""Data sets with more images follow ImageNet; about the geometric mean of the two sizes."""
SHORT = "photos-gpu"
"""Size of the configs for short runs."""
LONG_RUN = 0.9
"""Runs that see fewer images than this share of the published COCO training (200 x 82,783) are
short. The published lr is proportional to the batch, so the sum of the updates is proportional to
the images seen. In all comparisons, of hundreds to thousands of updates, AdamW learned; LARC's
features after 4,900 updates at lr 0.3 were worse than random. Where LARC overtakes was not
measured. The 10 % allow for rounded epochs. All methods switch at the same point."""

EPOCHS = (100, 800)
"""Fewest and most: the paper's on ImageNet, and SwAV's longest training."""

MOST_UNTUNED_LR = 1e-3
"""Highest lr of AdamW for networks other than ResNets, for which none was tuned."""
LARGE_BATCH_WARMUP_EPOCHS = 10
"""Warm-up of the published optimizer for batches above the published ones, as in SwAV and BYOL for
4,096 images."""
MOST_WARMUP = 1 / 5
"""Longest warm-up, as a fraction of all epochs."""
WARMUP_START = 1e-4
"""First lr of the warm-up of a long run, as a fraction of the final one."""
SHORT_WARMUP_START = 0.01
"""The same of a short run."""


def choose_recipe(
    asked: PretrainOptions,
    num_images: int,
    short_side_px: int,
    *,
    num_devices: int = 1,
    on_gpu: bool = False,
    why_epochs: str = "as asked",
) -> Recipe:
    """Scale the training that is nearest in images to other data and devices.

    On a CPU the views are half as large. The published optimizer's learning rate is proportional to
    the images per update. AdamW's is so up to 64 images, and constant beyond.
    """
    check_ranges(asked)
    method = find_method(asked.method, None if is_anchored(asked) else asked.teacher)
    accumulate = asked.accumulate or 1
    backbone = DEFAULT_BACKBONE if asked.backbone is None else asked.backbone
    epochs = asked.epochs
    if epochs is None:
        coco_epochs = method.coco.train_cfg.max_epochs
        low, high = EPOCHS
        epochs = round_within(coco_epochs * COCO_IMAGES / num_images, EPOCHS)
        why_epochs = f"as COCO's {coco_epochs} epochs by images seen, from {low} to {high}"
    # No training by a teacher is published.
    is_short = method.uses_teacher or epochs * num_images < needed_images(method)
    if is_short:
        base = method.config_at(SHORT)
    else:
        base = method.coco if num_images < LIKE_IMAGENET else method.imagenet
    paper_px = method.coco.model.layout.image_px
    own = base.model.layout.to_dict()
    step_px = size_step(backbone)
    layout, why_views = choose_views(own, paper_px, short_side_px, on_gpu, asked.image_px, step_px)
    views = ViewLayout.build(layout)
    found = find_backbone(backbone, {group.px for group in views.groups}, asked.channels or 3)
    most = method.coco.train_dataloader.batch_size
    batch, why_batch = choose_batch(
        num_images, num_devices, most, asked.batch_size, accumulate=accumulate
    )
    recipe = Recipe(
        method=method,
        asked=asked,
        base=base,
        num_images=num_images,
        num_devices=num_devices,
        on_gpu=on_gpu,
        backbone=found,
        layout=layout,
        batch_size=batch,
        num_chunks=accumulate,
        epochs=epochs,
        is_short=is_short,
    )
    check_method(recipe)
    if not asked.method:
        why = "a teacher is given" if method.uses_teacher else WHY_DEFAULT
        recipe.rows["method"] = RecipeRow(method.title, why)
    recipe.rows["views"] = RecipeRow(views_text(views), why_views)
    parts = f", in {accumulate} parts" if accumulate > 1 else ""
    devices = counted(num_devices, "device")
    recipe.rows["batch"] = RecipeRow(f"{counted(batch, 'image')} x {devices}{parts}", why_batch)
    updates = counted(recipe.num_steps, "update")
    recipe.rows["epochs"] = RecipeRow(f"{epochs}, {updates}", why_epochs)
    _choose_optimizer(recipe)
    if method.uses_teacher:
        why = "sees each image once, before the training"
        recipe.rows["teacher"] = RecipeRow(str(asked.teacher or SUPERVISED), why)
    add_numbers(recipe, COCO_IMAGES if base is method.coco else IMAGENET_IMAGES)
    return recipe


def needed_images(method: Method) -> float:
    """Return the images that a run must see to take a published training."""
    return LONG_RUN * method.coco.train_cfg.max_epochs * COCO_IMAGES


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


def _choose_optimizer(recipe: Recipe) -> None:
    is_resnet, step_images = recipe.backbone.is_resnet, recipe.step_images
    is_published = is_resnet and not recipe.is_short
    source = recipe.base if is_published else recipe.method.config_at(SHORT)
    optimizer = source.optim_wrapper.optimizer.to_dict()
    own_lr, start_factor, own_min = optimizer["lr"], SHORT_WARMUP_START, 0.0
    if is_published:
        lr = own_lr * step_images / source.auto_scale_lr.base_batch_size
        reason = "the published rate, scaled to the images per update"
        first, last = source.param_scheduler[0], source.param_scheduler[-1]
        warmup = first.end if first.type == "LinearLR" else 0
        if step_images > recipe.method.imagenet.auto_scale_lr.base_batch_size:
            warmup = max(warmup, LARGE_BATCH_WARMUP_EPOCHS)
            reason = "the published rate, with a warm-up for large batches"
        warmup = min(warmup, int(recipe.epochs * MOST_WARMUP))
        start_factor, own_min = WARMUP_START, last.get("eta_min", 0)
    else:
        lr = own_lr * min(1, step_images / source.train_dataloader.batch_size)
        reason = "the rate of short runs"
        if not recipe.method.uses_teacher:
            reason += f"; below {needed_images(recipe.method) / 1e6:.3g} M images seen"
        warmup = int(recipe.epochs > 1)
    if not is_resnet:
        lr, reason = min(MOST_UNTUNED_LR, lr), "AdamW trains all networks but ResNets"
    if recipe.asked.lr is not None:
        lr, reason = recipe.asked.lr, "the rate as asked"
    recipe.optimizer = {**optimizer, "lr": lr}
    recipe.schedule = _schedule(recipe.epochs, warmup, start_factor, lr * own_min / own_lr)
    rises = f" after {counted(warmup, 'epoch')} of warm-up" if warmup else ""
    recipe.rows["optimizer"] = RecipeRow(f"{optimizer['type']}, lr {lr:.3g}, cosine{rises}", reason)
    if "head" in source.model and source is not recipe.base:  # AdamW needs them as well
        recipe.values["model.head.epsilon"] = source.model.head.epsilon
        for name in ("brightness", "contrast", "saturation", "hue"):
            jitter = source.model.data_preprocessor[name]
            recipe.values[f"model.data_preprocessor.{name}"] = jitter
