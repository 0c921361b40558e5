"""Choose a pre-training recipe from the number of images and devices.

The anchors are each method's published trainings, on COCO train2014 (82,783 images, batch 128, 200
epochs over 2 GPUs; for SS-PRL the released recipe) and on ImageNet (1,281,167 images, batch 256,
100 epochs). The rules below give both back for that input and scale them for others;
``choose_recipe`` names them in order. What is common to all methods is chosen here, what a
method adds in ``methods``.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from ..console.options import check_ranges
from ..console.wording import counted
from ..errors import UserValueError
from ..pyramid import MOST_PX, ViewLayout
from .backbones import find_backbone, name_of
from .methods import WHY_DEFAULT, Recipe, RecipeMethod, RecipeRow
from .methods.method import COCO_IMAGES, between, round_within, way_to_imagenet
from .options import DEFAULT_BACKBONE, PretrainOptions

CPU_BATCH = 32
"""Most images of a step on a CPU; a GPU takes as many as each of the released recipe's."""
LEAST_STEPS_PER_EPOCH = 8
"""The batch is chosen so small that little data, too, gives this many updates an epoch."""
LEAST_BATCH = 2
"""Images of a device and step: the statistics of one image say nothing."""

FULL_SHORT_SIDE_PX = 256
"""Images at least this large on their short side are cut at the paper's sizes."""
CPU_SCALE = 0.5
"""Of the views on a CPU: a quarter of the pixels, and so of the work."""
SIZE_STEP_PX = 16
"""View sizes are multiples of it, as patch embeddings of transformers need."""
EPOCHS = (100, 800)
"""Least and most that are chosen: as on ImageNet in the paper, and as SwAV's longest training."""

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


def choose_recipe(
    method: RecipeMethod,
    asked: PretrainOptions,
    num_images: int,
    short_side_px: int,
    *,
    num_devices: int = 1,
    on_gpu: bool = False,
    why_epochs: str = "as asked",
) -> Recipe:
    """Scale a method's published trainings to other data and devices.

    On a CPU the views are half as large. With ``accumulate`` the published optimizer's learning
    rate is in proportion to the images of a step, AdamW's up to 64 images and not beyond.
    """
    check_ranges(asked)
    accumulate = asked.accumulate or 1
    published = method.coco.model.layout.to_dict()
    backbone = DEFAULT_BACKBONE if asked.backbone is None else asked.backbone
    step_px = _size_step(name_of(backbone))
    layout, why_views = _choose_views(published, short_side_px, on_gpu, asked.image_px, step_px)
    views = ViewLayout.build(layout)
    sizes_px = {group.px for group in views.groups}
    found = find_backbone(backbone, sizes_px, asked.channels or 3)
    most = method.coco.train_dataloader.batch_size if on_gpu else CPU_BATCH
    batch, why_batch = _choose_batch(
        num_images, num_devices, most, on_gpu, asked.batch_size, accumulate
    )
    steps_per_epoch = math.ceil(num_images / num_devices) // batch  # of one process
    epochs = asked.epochs
    if epochs is None:
        coco_epochs = method.coco.train_cfg.max_epochs
        epochs = round_within(coco_epochs * COCO_IMAGES / num_images, EPOCHS)
        low, high = EPOCHS
        why_epochs = f"as COCO's {coco_epochs} epochs by images seen, from {low} to {high}"
    num_steps = counted(epochs * steps_per_epoch, "update")
    parts = f", in {accumulate} parts" if accumulate > 1 else ""
    devices = counted(num_devices, "device")
    recipe = Recipe(
        method=method,
        num_images=num_images,
        num_devices=num_devices,
        on_gpu=on_gpu,
        backbone=found,
        layout=layout,
        batch_size=batch,
        num_chunks=accumulate,
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        rows={
            "views": RecipeRow(_views_text(views), why_views),
            "batch": RecipeRow(f"{counted(batch, 'image')} x {devices}{parts}", why_batch),
            "epochs": RecipeRow(f"{epochs}, {num_steps}", why_epochs),
        },
    )
    if not (asked.method or asked.variant):
        recipe.rows = {"method": RecipeRow(method.title, WHY_DEFAULT), **recipe.rows}
    _choose_optimizer(recipe, asked.lr)
    method.add_to(recipe)
    return recipe


def _views_text(layout: ViewLayout) -> str:
    views = [f"2 x {layout.image_px} px"]
    if layout.num_small:
        views.append(f"{layout.num_small} x {layout.small_px} px")
    for level in layout.levels:
        out_of = f" of {level.num_cells}" if level.is_sampled else ""
        views.append(f"2 x {level.num_patches}{out_of} x {level.patch_px} px")
    return ", ".join(views)


def _choose_batch(
    num_images: int, num_devices: int, most: int, on_gpu: bool, asked: int | None, accumulate: int
) -> tuple[int, str]:
    """Return the images of a step of one device, all its parts together."""
    if asked is None:
        fitting = max(LEAST_BATCH, num_images // (LEAST_STEPS_PER_EPOCH * num_devices))
        part = min(most, 2 ** int(math.log2(fitting)))
        place = "GPU" if on_gpu else "CPU"
        reason = f"at most {most} per {place}, and at least {LEAST_STEPS_PER_EPOCH} steps an epoch"
    else:
        part, reason = asked, "as asked"
    if accumulate * part * num_devices > num_images or part < LEAST_BATCH:
        times = f" {accumulate} times" if accumulate > 1 else ""
        largest = num_images // (accumulate * num_devices)
        fits = f"choose a batch_size from 2 to {largest}, " if largest >= LEAST_BATCH else ""
        raise UserValueError(
            f"a step needs 2 images per device and at most all {num_images} images, but got "
            f"batch_size {part}{times} on {counted(num_devices, 'device')}; {fits}"
            f"{'lower accumulate, ' if times else ''}use fewer gpus, or add images."
        )
    return accumulate * part, reason


def _choose_views(
    paper: Mapping[str, Any], short_side_px: int, on_gpu: bool, image_px: int | None, step_px: int
) -> tuple[dict[str, Any], str]:
    """Return the paper's views, dicts of ``ViewLayout``, scaled to images and device; and why.

    Without ``image_px`` the scale follows the typical shorter side of the images and the device.
    """
    if image_px is None:
        scale = min(1.0, short_side_px / FULL_SHORT_SIDE_PX) * (1.0 if on_gpu else CPU_SCALE)
    elif image_px % step_px or not 2 * step_px <= image_px <= MOST_PX:
        most = MOST_PX // step_px * step_px
        raise UserValueError(
            f"image_px must be a multiple of {step_px} from {2 * step_px} to {most}, "
            f"but got {image_px}; the nearest is {min(most, _size(image_px, step_px))}."
        )
    else:
        scale = image_px / paper["image_px"]
    if scale == 1 and step_px == SIZE_STEP_PX:
        return dict(paper), "the paper's sizes"
    layout = {
        **paper,
        "image_px": _size(paper["image_px"] * scale, step_px),
        "small_px": _size(paper["small_px"] * scale, step_px),
        "levels": [_scaled(level, scale, step_px) for level in paper["levels"]],
    }
    of_patch = "" if step_px == SIZE_STEP_PX else f", multiples of {step_px} px for the patch"
    if image_px is not None:
        return layout, f"as asked, the others in proportion{of_patch}"
    device = "GPU" if on_gpu else "CPU"
    return layout, f"sizes for {short_side_px} px photographs on a {device}{of_patch}"


def _scaled(level: Mapping[str, Any], scale: float, step_px: int) -> dict[str, Any]:
    """Return a level with other patches, and its image in the same proportion to them."""
    patch_px = _size(level["patch_px"] * scale, step_px)
    resize_px = math.ceil(patch_px * level["resize_px"] / level["patch_px"])
    return {**level, "patch_px": patch_px, "resize_px": resize_px}


def _size(px: float, step_px: int) -> int:
    return max(2 * step_px, step_px * round(px / step_px))


def _size_step(backbone: str) -> int:
    """Return what view sizes are multiples of: about 16 px, whole patches by timm's name."""
    found = re.search(r"_patch(\d+)", backbone)
    patch = int(found[1]) if found else SIZE_STEP_PX
    return patch * max(1, round(SIZE_STEP_PX / patch))


def _choose_optimizer(recipe: Recipe, asked_lr: float | None) -> None:
    """Add the optimizer and the epochs of its warm-up; ``asked_lr`` replaces the chosen rate."""
    method, step_images, is_resnet = recipe.method, recipe.step_images, recipe.backbone.is_resnet
    published, wanted_warmup = _published(method, recipe.num_images)
    needed = LONG_RUN * method.coco.train_cfg.max_epochs * COCO_IMAGES
    seen = recipe.num_steps * step_images
    if is_resnet and seen >= needed:
        lr = published["lr"] * step_images
        optimizer = {**published, "lr": lr}
        reason = "the published rate for as many images of an update"
        if step_images > method.imagenet.auto_scale_lr.base_batch_size:
            wanted_warmup = max(wanted_warmup, LARGE_BATCH_WARMUP_EPOCHS)
            reason = "the published rate, with a warm-up for large batches"
    else:
        rate = method.adamw_lr if is_resnet else min(MOST_UNTUNED_LR, method.adamw_lr)
        lr = rate * min(1, step_images / ADAMW_BATCH)
        optimizer, wanted_warmup = {**ADAMW, "lr": lr}, method.adamw_warmup_epochs
        reason = "AdamW trains all networks but ResNets"
        if is_resnet:
            reason = f"AdamW below {needed / 1e6:.3g} M images seen, here {seen / 1e6:.3g} M"
    if asked_lr is not None:
        optimizer["lr"] = lr = asked_lr
        reason = "the rate as asked"
    warmup_epochs = min(wanted_warmup, int(recipe.epochs * MOST_WARMUP))
    rises = f" after {counted(warmup_epochs, 'epoch')} of warm-up" if warmup_epochs else ""
    recipe.optimizer, recipe.warmup_epochs = optimizer, warmup_epochs
    choice = f"{optimizer['type']}, lr {lr:.3g}, cosine{rises}"
    recipe.rows["optimizer"] = RecipeRow(choice, reason)


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
