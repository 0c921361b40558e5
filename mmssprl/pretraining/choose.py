"""Choose a pre-training recipe from the number of images and devices.

A recipe scales an existing training:

* Short runs take the method's form at size ``photos-gpu``, which `compare` trains, too.
* Runs that see as many images as the published training on COCO (82,783 images, 200 epochs, batch
  128 over 2 GPUs) take that training.
* From 300,000 images they take the training on ImageNet (1,281,167 images, 100 epochs, batch 256).

This module chooses what all methods share. The model of a method scales the rest, see
``PretrainingModel.scaled``.
"""

import copy
import math
import re
from typing import Any

from mmengine.config import Config

from ..console.options import check_ranges
from ..console.wording import counted
from ..errors import UserValueError
from ..models.training_size import round_within
from ..pyramid import MOST_PX, ViewLayout
from ..runs.devices import choose_batch
from ..weights import SUPERVISED, Source
from .backbones import find_backbone
from .continuation import is_anchored
from .known_backbones import DEFAULT_BACKBONE
from .methods import (
    CONTINUED,
    DEFAULT,
    DISTILL,
    SHORT,
    WHY_CONTINUED,
    WHY_DEFAULT,
    Method,
    find_method,
)
from .options import PretrainOptions
from .recipe import Recipe, RecipeRow
from .schedule import COCO_IMAGES, choose_rate, needed_images, schedule_of, training_values

IMAGENET_IMAGES = 1_281_167
LIKE_IMAGENET = 300_000  # larger data follow ImageNet; about the two sizes' geometric mean
FULL_SHORT_SIDE_PX = 256  # images with at least this short side get the paper's views
CPU_SCALE = 0.5  # of views on a CPU: a quarter of the pixels, and of the work
SIZE_STEP_PX = 16  # view sizes are multiples of it, as patch embeddings need
EPOCHS = (100, 800)  # fewest and most: the paper's on ImageNet, and SwAV's longest training
_NEEDS = {
    "map": "a feature map, as of a ResNet, convnext-tiny or swin-tiny",
    "stages": "a ResNet of mmpretrain (resnet18, resnet34, resnet50 or resnet101)",
}


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
    method = _choose_method(asked)
    epochs = asked.epochs
    if epochs is None:
        epochs, why_epochs = _usual_epochs(method, num_images)
    # No training by a teacher is published.
    is_short = method.learns_from_teacher or epochs * num_images < needed_images(method)
    base, base_images = _base_of(method, num_images, is_short=is_short)

    name = DEFAULT_BACKBONE if asked.backbone is None else asked.backbone
    own = base.model.layout.to_dict()
    paper_px = method.coco.model.layout.image_px
    step_px = size_step(name)
    layout, why_views = choose_views(own, paper_px, short_side_px, on_gpu, asked.image_px, step_px)
    sizes_px = {group.px for group in ViewLayout.build(layout).groups}
    backbone = find_backbone(name, sizes_px, asked.channels or 3)
    most = method.coco.train_dataloader.batch_size
    batch, why_batch = choose_batch(
        num_images, num_devices, most, asked.batch_size, accumulate=asked.accumulate or 1
    )

    cfg = copy.deepcopy(base)
    cfg.layout = cfg.model.layout = layout
    cfg.train_dataloader.batch_size = batch
    cfg.train_cfg.max_epochs = epochs
    recipe = Recipe(
        method=method,
        asked=asked,
        base=base,
        base_images=base_images,
        cfg=cfg,
        num_images=num_images,
        num_devices=num_devices,
        on_gpu=on_gpu,
        backbone=backbone,
        is_short=is_short,
    )
    _check_method(recipe)
    _set_numbers(recipe)

    views = RecipeRow(views_text(ViewLayout.build(layout)), why_views)
    recipe.rows = _rows(recipe, views, why_batch, why_epochs)
    return recipe


def _rows(
    recipe: Recipe, views: RecipeRow, why_batch: str, why_epochs: str
) -> dict[str, RecipeRow]:
    """Return the rows of a recipe, in the order in which they are printed."""
    method = recipe.method
    rows: dict[str, RecipeRow] = {}
    if not recipe.asked.method:
        reasons = {DISTILL.key: "a teacher is given", CONTINUED: WHY_CONTINUED}
        why = reasons.get(method.key, WHY_DEFAULT)
        rows["method"] = RecipeRow(method.title, why)
    rows["views"] = views
    rows["batch"] = RecipeRow(_batch_text(recipe), why_batch)
    num_steps = counted(recipe.num_steps, "update")
    rows["epochs"] = RecipeRow(f"{recipe.epochs}, {num_steps}", why_epochs)
    rows |= recipe.rows
    if method.learns_from_teacher:
        why = "sees each image once, before the training"
        rows["teacher"] = RecipeRow(str(recipe.asked.teacher or SUPERVISED), why)
    return rows


def _choose_method(asked: PretrainOptions) -> Method:
    """Return the method that is asked for, or raise ValueError if it does not take the teacher."""
    by_teacher = asked.teacher is not None and not is_anchored(asked)
    default = DEFAULT if Source.of(asked.weights).is_random else CONTINUED
    method = find_method(asked.method or (DISTILL.key if by_teacher else default))
    can_anchor = not by_teacher and method.model_class.anchored_form is not None
    if asked.teacher is not None and not (method.learns_from_teacher or can_anchor):
        raise UserValueError(
            f"teacher {asked.teacher} is for method {DISTILL.key} or, if it is the weights, for "
            f"SS-PRL and SwAV, but method is {method.key}; leave one of them out."
        )
    return method


def _usual_epochs(method: Method, num_images: int) -> tuple[int, str]:
    """Return epochs that see as many images as the training on COCO, and the reason."""
    coco_epochs = method.coco.train_cfg.max_epochs
    low, high = EPOCHS
    epochs = round_within(coco_epochs * COCO_IMAGES / num_images, EPOCHS)
    return epochs, f"as COCO's {coco_epochs} epochs by images seen, from {low} to {high}"


def _base_of(method: Method, num_images: int, *, is_short: bool) -> tuple[Config, int]:
    """Return the config that is scaled, and the images of the published training."""
    if is_short:
        return method.config_at(SHORT), IMAGENET_IMAGES
    if num_images < LIKE_IMAGENET:
        return method.coco, COCO_IMAGES
    return method.imagenet, IMAGENET_IMAGES


def _check_method(recipe: Recipe) -> None:
    """Raise ValueError if the method cannot take the backbone or split a batch into parts."""
    method = recipe.method
    backbone = recipe.backbone
    accumulate = recipe.asked.accumulate or 1
    if accumulate > 1 and not method.model_class.takes_num_chunks:
        raise UserValueError(
            f"accumulate must be 1 for {method.key}, but got {accumulate}; it needs its whole "
            "batch at once. Raise batch_size instead."
        )
    needs = method.model_class.needs
    gives = {"pooled": True, "map": backbone.gives_map, "stages": backbone.has_stages}
    if not gives[needs]:
        raise UserValueError(
            f"{method.key} needs {_NEEDS[needs]}, but {backbone.name} does not give that; "
            "choose another backbone."
        )


def _set_numbers(recipe: Recipe) -> None:
    """Set the optimizer, its schedule and the numbers of the method, and add row and warnings."""
    cfg = recipe.cfg
    method = recipe.method
    rate = choose_rate(recipe)
    optimizer = recipe.optimizer_base.optim_wrapper.optimizer.to_dict()
    schedule = schedule_of(rate, recipe.epochs, optimizer["lr"])
    cfg.optim_wrapper.optimizer = optimizer
    values = training_values(method, recipe.base, recipe.size, lr=rate.lr, schedule=schedule)
    accumulate = recipe.asked.accumulate or 1
    if accumulate > 1:
        values["model.num_chunks"] = accumulate
    cfg.merge_from_dict(values)

    choice = f"{optimizer['type']}, lr {rate.lr:.3g}, cosine"
    if rate.warmup_epochs:
        choice += f" after {counted(rate.warmup_epochs, 'epoch')} of warm-up"
    recipe.rows["optimizer"] = RecipeRow(choice, rate.reason)
    recipe.warnings += method.model_class.size_warnings(cfg, recipe.size)


def _batch_text(recipe: Recipe) -> str:
    """Format a batch as ``64 images x 2 devices``."""
    accumulate = recipe.asked.accumulate or 1
    parts = f", in {accumulate} parts" if accumulate > 1 else ""
    devices = counted(recipe.num_devices, "device")
    return f"{counted(recipe.batch_size, 'image')} x {devices}{parts}"


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

    scale = image_px / own["image_px"]
    levels = []
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
