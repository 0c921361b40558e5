"""Choose a pre-training recipe from the number of images and devices.

A recipe scales an existing training:

* Short runs take the method's form at size ``photos-gpu``, which `compare` trains, too.
* Runs that see as many images as the published training on COCO (82,783 images, 200 epochs, batch
  128 over 2 GPUs) take that training.
* From 300,000 images they take the training on ImageNet (1,281,167 images, 100 epochs, batch 256).

This module chooses what all methods share; ``numbers`` chooses the rest.
"""

import copy
import math
import re
from typing import Any

from ..console.options import check_ranges
from ..console.wording import counted
from ..errors import UserValueError
from ..pyramid import MOST_PX, ViewLayout
from ..runs.devices import choose_batch
from ..weights import SUPERVISED
from .backbones import find_backbone
from .continuation import is_anchored
from .methods import DEFAULT, DISTILL, WHY_DEFAULT, find_method
from .numbers import check_method, round_within, scaled_numbers
from .options import DEFAULT_BACKBONE, PretrainOptions
from .recipe import Recipe, RecipeRow

COCO_IMAGES = 82_783
IMAGENET_IMAGES = 1_281_167
LIKE_IMAGENET = 300_000  # larger data follow ImageNet; about the two sizes' geometric mean
SHORT = "photos-gpu"  # size of the configs for short runs
LONG_RUN = 0.9
"""Runs that see fewer images than this share of the published COCO training (200 x 82,783) are
short. The published lr is proportional to the batch, so the sum of the updates is proportional to
the images seen. In all comparisons, of hundreds to thousands of updates, AdamW learned; LARC's
features after 4,900 updates at lr 0.3 were worse than random. Where LARC overtakes was not
measured. The 10 % allow for rounded epochs. All methods switch at the same point."""
FULL_SHORT_SIDE_PX = 256  # images with at least this short side get the paper's views
CPU_SCALE = 0.5  # of views on a CPU: a quarter of the pixels, and of the work
SIZE_STEP_PX = 16  # view sizes are multiples of it, as patch embeddings need
EPOCHS = (100, 800)  # fewest and most: the paper's on ImageNet, and SwAV's longest training
MOST_UNTUNED_LR = 1e-3  # of AdamW for networks other than ResNets, for which none was tuned
LARGE_BATCH_WARMUP_EPOCHS = 10  # as in SwAV and BYOL for 4,096 images; above the published batches
MOST_WARMUP = 1 / 5  # of all epochs
WARMUP_START = 1e-4  # first lr of a long run, as a fraction of the final one
SHORT_WARMUP_START = 0.01  # the same of a short run


def choose_recipe(
    asked: PretrainOptions,
    num_images: int,
    short_side_px: int,
    *,
    num_devices: int = 1,
    on_gpu: bool = False,
    why_epochs: str = "as asked",
) -> Recipe:
    """Scale the training that is nearest in images to other data and devices."""
    check_ranges(asked)
    by_teacher = asked.teacher is not None and not is_anchored(asked)
    method = find_method(asked.method or (DISTILL.key if by_teacher else DEFAULT))
    accumulate = asked.accumulate or 1
    backbone = DEFAULT_BACKBONE if asked.backbone is None else asked.backbone
    epochs = asked.epochs
    coco_epochs = method.coco.train_cfg.max_epochs
    if epochs is None:
        low, high = EPOCHS
        epochs = round_within(coco_epochs * COCO_IMAGES / num_images, EPOCHS)
        why_epochs = f"as COCO's {coco_epochs} epochs by images seen, from {low} to {high}"
    needed = LONG_RUN * coco_epochs * COCO_IMAGES
    # No training by a teacher is published.
    is_short = method.uses_teacher or epochs * num_images < needed
    if is_short:
        base = method.config_at(SHORT)
    else:
        base = method.coco if num_images < LIKE_IMAGENET else method.imagenet
    takes_teacher = method.uses_teacher or (not by_teacher and base.model.type == "SSPRL")
    if asked.teacher is not None and not takes_teacher:
        raise UserValueError(
            f"teacher {asked.teacher} is for method {DISTILL.key} or, if it is the weights, for "
            f"SS-PRL and SwAV, but method is {method.key}; leave one of them out."
        )
    cfg = copy.deepcopy(base)
    step_px = size_step(backbone)
    paper_px, own = method.coco.model.layout.image_px, base.model.layout.to_dict()
    layout, why_views = choose_views(own, paper_px, short_side_px, on_gpu, asked.image_px, step_px)
    views = ViewLayout.build(layout)
    found = find_backbone(backbone, {group.px for group in views.groups}, asked.channels or 3)
    most, batch_size = method.coco.train_dataloader.batch_size, asked.batch_size
    batch, why_batch = choose_batch(
        num_images, num_devices, most, batch_size, accumulate=accumulate
    )
    cfg.layout = cfg.model.layout = layout
    cfg.train_dataloader.batch_size = batch
    cfg.train_cfg.max_epochs = epochs
    recipe = Recipe(method, asked, base, cfg, num_images, num_devices, on_gpu, found, is_short)
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
    _choose_optimizer(recipe, needed)
    if method.uses_teacher:
        why = "sees each image once, before the training"
        recipe.rows["teacher"] = RecipeRow(str(asked.teacher or SUPERVISED), why)
    base_images = COCO_IMAGES if base is method.coco else IMAGENET_IMAGES
    cfg.merge_from_dict(scaled_numbers(recipe, num_images / base_images))
    return recipe


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


def _choose_optimizer(recipe: Recipe, needed_images: float) -> None:
    """Scale the published lr by the images per update; AdamW's is constant above 64 images."""
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
            reason += f"; below {needed_images / 1e6:.3g} M images seen"
        warmup = int(recipe.epochs > 1)
    if not is_resnet:
        lr, reason = min(MOST_UNTUNED_LR, lr), "AdamW trains all networks but ResNets"
    if recipe.asked.lr is not None:
        lr, reason = recipe.asked.lr, "the rate as asked"
    cfg = recipe.cfg
    cfg.optim_wrapper.optimizer = {**optimizer, "lr": lr}
    cfg.param_scheduler = _schedule(recipe.epochs, warmup, start_factor, lr * own_min / own_lr)
    rises = f" after {counted(warmup, 'epoch')} of warm-up" if warmup else ""
    recipe.rows["optimizer"] = RecipeRow(f"{optimizer['type']}, lr {lr:.3g}, cosine{rises}", reason)
    if "head" in source.model and source is not recipe.base:  # AdamW needs them as well
        cfg.model.head.epsilon = source.model.head.epsilon
        for name in ("brightness", "contrast", "saturation", "hue"):
            cfg.model.data_preprocessor[name] = source.model.data_preprocessor[name]


def views_text(layout: ViewLayout) -> str:
    """Format views as ``2 x 224 px, 6 x 96 px``."""
    views = [f"2 x {layout.image_px} px"]
    if layout.num_small:
        views.append(f"{layout.num_small} x {layout.small_px} px")
    for level in layout.levels:
        out_of = f" of {level.num_cells}" if level.is_sampled else ""
        views.append(f"2 x {level.num_patches}{out_of} x {level.patch_px} px")
    return ", ".join(views)


def choose_views(
    own: dict[str, Any],
    paper_px: int,
    short_side_px: int,
    on_gpu: bool,
    image_px: int | None,
    step_px: int,
) -> tuple[dict[str, Any], str]:
    """Return the views ``own`` scaled to images and device, as fields of ``ViewLayout``; and why.

    Without ``image_px`` the image views have the paper's side, less for images of a small shorter
    side, and half of it on a CPU. All sides are multiples of ``step_px``.
    """

    def rounded(px: float) -> int:
        return max(2 * step_px, step_px * round(px / step_px))

    reason = "as asked, the others in proportion"
    if image_px is None:
        scale = min(1.0, short_side_px / FULL_SHORT_SIDE_PX) * (1.0 if on_gpu else CPU_SCALE)
        image_px = rounded(paper_px * scale)
        reason = f"sizes for {short_side_px} px photographs on a {'GPU' if on_gpu else 'CPU'}"
    elif image_px % step_px or not 2 * step_px <= image_px <= MOST_PX:
        most = MOST_PX // step_px * step_px
        raise UserValueError(
            f"image_px must be a multiple of {step_px} from {2 * step_px} to {most}, "
            f"but got {image_px}; the nearest is {min(most, rounded(image_px))}."
        )
    if image_px == own["image_px"] and step_px == SIZE_STEP_PX:
        return own, reason
    scale, levels = image_px / own["image_px"], []
    for level in own["levels"]:
        patch_px = rounded(level["patch_px"] * scale)
        resize_px = math.ceil(patch_px * level["resize_px"] / level["patch_px"])
        levels.append({**level, "patch_px": patch_px, "resize_px": resize_px})
    small_px = rounded(own["small_px"] * scale)
    return {**own, "image_px": image_px, "small_px": small_px, "levels": levels}, reason


def size_step(backbone: str) -> int:
    """Return the step of view sizes: about 16 px, in whole patches by the name in timm."""
    found = re.search(r"_patch(\d+)", backbone)
    patch = int(found[1]) if found else SIZE_STEP_PX
    return patch * max(1, round(SIZE_STEP_PX / patch))
