"""Choose a pre-training recipe from the number of images and devices.

A recipe is the training nearest in images, scaled where it must be. Short runs take what was
measured on photographs: the method's form at size ``photos-gpu``, which `compare` trains, too. Runs
that see as many images as the published training on COCO (82,783 images, 200 epochs of batch 128
over 2 GPUs) take that one, and from 300,000 images on the one on ImageNet (1,281,167 images, 100
epochs of batch 256). What is common to all methods is chosen here, the rest in ``numbers``.
"""

import math
from typing import Any

from ..console.options import check_ranges
from ..console.wording import counted
from ..pyramid import ViewLayout
from ..weights.backbone import SUPERVISED
from .backbones import find_backbone
from .chosen import Recipe
from .methods import WHY_DEFAULT, Method
from .numbers import add_numbers, check_method, choose_batch, round_within
from .options import DEFAULT_BACKBONE, PretrainOptions
from .views import choose_views, size_step, views_text

COCO_IMAGES = 82_783
IMAGENET_IMAGES = 1_281_167
LIKE_IMAGENET = 300_000
"""Images from which on ImageNet is the nearer one, about the geometric mean of both."""
SHORT = "photos-gpu"
"""Size of the configs that short runs take."""
LONG_RUN = 0.9
"""Share of the images seen in the published COCO training (200 epochs of 82,783) from which on the
published trainings are taken. With a rate in proportion to the images of an update, updates x rate,
by which it moves the weights, is in proportion to the images seen. Shorter runs are AdamW's: it
learned in all that were compared, of hundreds to thousands of updates, where LARC's features were
worse than random ones after 4,900 updates at lr 0.3; no run in between has shown where the
published optimizers come into their own. The tenth less is for epochs that are rounded. All methods
change over at the same place, so that they are trained alike."""

EPOCHS = (100, 800)
"""Least and most that are chosen: as on ImageNet in the paper, and as SwAV's longest training."""

MOST_UNTUNED_LR = 1e-3
"""Highest rate of AdamW for other networks than ResNets, whose rates nothing here was tuned for."""
LARGE_BATCH_WARMUP_EPOCHS = 10
"""Before the cosine of the published optimizer with more images of an update than in any published
training here; SwAV's and BYOL's for 4,096 images."""
MOST_WARMUP = 1 / 5
"""Of the epochs."""
WARMUP_START = 1e-4
"""First rate of a warm-up as a share of the rate that it leads to, in long runs."""


def choose_recipe(
    method: Method,
    asked: PretrainOptions,
    num_images: int,
    short_side_px: int,
    *,
    num_devices: int = 1,
    on_gpu: bool = False,
    why_epochs: str = "as asked",
) -> Recipe:
    """Scale the training that is nearest in images to other data and devices.

    On a CPU the views are half as large. With ``accumulate`` the published optimizer's learning
    rate is in proportion to the images of a step, AdamW's up to the 64 of its base and not beyond.
    """
    check_ranges(asked)
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
        base, base_images = method.config_at(SHORT), num_images
    elif num_images < LIKE_IMAGENET:
        base, base_images = method.coco, COCO_IMAGES
    else:
        base, base_images = method.imagenet, IMAGENET_IMAGES
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
    steps_per_epoch = math.ceil(num_images / num_devices) // batch  # of one process
    recipe = Recipe(
        method=method,
        base=base,
        base_images=base_images,
        num_images=num_images,
        num_devices=num_devices,
        on_gpu=on_gpu,
        backbone=found,
        layout=layout,
        batch_size=batch,
        num_chunks=accumulate,
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        rows={},
        is_short=is_short,
    )
    check_method(recipe)
    if not asked.method:
        why = "a teacher is given" if asked.teacher else WHY_DEFAULT
        recipe.add_row("method", method.title, why)
    recipe.add_row("views", views_text(views), why_views)
    parts = f", in {accumulate} parts" if accumulate > 1 else ""
    devices = counted(num_devices, "device")
    recipe.add_row("batch", f"{counted(batch, 'image')} x {devices}{parts}", why_batch)
    recipe.add_row("epochs", f"{epochs}, {counted(recipe.num_steps, 'update')}", why_epochs)
    _choose_optimizer(recipe, asked.lr)
    if method.uses_teacher:
        why = "sees each image once, before the training"
        recipe.add_row("teacher", str(asked.teacher or SUPERVISED), why)
    add_numbers(recipe)
    return recipe


def needed_images(method: Method) -> float:
    """Return how many images a run sees at least that takes a published training."""
    return LONG_RUN * method.coco.train_cfg.max_epochs * COCO_IMAGES


def short_schedule(epochs: int) -> list[dict[str, Any]]:
    """Return the learning rate's: an epoch of linear warm-up, then a cosine to 0 at the end.

    A run of a single epoch has the cosine alone. `compare` trains all methods with it.
    """
    return _schedule(epochs, int(epochs > 1), 0.01)


def _schedule(
    epochs: int, warmup: int, start_factor: float, eta_min: float = 0.0
) -> list[dict[str, Any]]:
    """Return the config of a linear warm-up, if any, and a cosine."""
    unit = {"by_epoch": True, "convert_to_iter_based": True}
    linear = {"type": "LinearLR", "start_factor": start_factor, "begin": 0, "end": warmup, **unit}
    length = {"begin": warmup, "end": epochs, "T_max": epochs - warmup}
    cosine = {"type": "CosineAnnealingLR", **length, **unit}
    if eta_min:
        cosine["eta_min"] = eta_min
    return [linear, cosine] if warmup else [cosine]


def _choose_optimizer(recipe: Recipe, asked_lr: float | None) -> None:
    """Add optimizer, schedule and what goes with them; ``asked_lr`` replaces the chosen rate."""
    is_resnet, step_images = recipe.backbone.is_resnet, recipe.step_images
    is_published = is_resnet and not recipe.is_short
    source = recipe.base if is_published else recipe.method.config_at(SHORT)
    optimizer = source.optim_wrapper.optimizer.to_dict()
    own_lr, needed = optimizer["lr"], needed_images(recipe.method)
    if is_published:
        lr = own_lr * step_images / source.auto_scale_lr.base_batch_size
        reason = "the published rate for as many images of an update"
        first, last = source.param_scheduler[0], source.param_scheduler[-1]
        warmup = first.end if first.type == "LinearLR" else 0
        if step_images > recipe.method.imagenet.auto_scale_lr.base_batch_size:
            warmup = max(warmup, LARGE_BATCH_WARMUP_EPOCHS)
            reason = "the published rate, with a warm-up for large batches"
        warmup = min(warmup, int(recipe.epochs * MOST_WARMUP))
    else:
        lr = own_lr * min(1, step_images / source.train_dataloader.batch_size)
        reason = "as measured on photographs"
        if not recipe.method.uses_teacher:
            reason += f"; below {needed / 1e6:.3g} M images seen"
        warmup = int(recipe.epochs > 1)
    if not is_resnet:
        lr, reason = min(MOST_UNTUNED_LR, lr), "AdamW trains all networks but ResNets"
    if asked_lr is not None:
        lr, reason = asked_lr, "the rate as asked"
    recipe.optimizer = {**optimizer, "lr": lr}
    recipe.schedule = short_schedule(recipe.epochs)
    if is_published:
        eta_min = lr * last.get("eta_min", 0) / own_lr
        recipe.schedule = _schedule(recipe.epochs, warmup, WARMUP_START, eta_min)
    rises = f" after {counted(warmup, 'epoch')} of warm-up" if warmup else ""
    recipe.add_row("optimizer", f"{optimizer['type']}, lr {lr:.3g}, cosine{rises}", reason)
    if "head" in source.model and source is not recipe.base:  # sharper codes and less jitter
        recipe.values["model.head.epsilon"] = source.model.head.epsilon
        for name in ("brightness", "contrast", "saturation", "hue"):
            jitter = source.model.data_preprocessor[name]
            recipe.values[f"model.data_preprocessor.{name}"] = jitter
