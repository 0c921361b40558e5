"""Choose a pre-training recipe from the number of images and devices.

The anchors are each method's published trainings, on COCO train2014 (82,783 images, batch 128, 200
epochs over 2 GPUs; for SS-PRL the released recipe) and on ImageNet (1,281,167 images, batch 256,
100 epochs). The rules below give both back for that input and scale them for others;
``choose_recipe`` names them in order. What is common to all methods is chosen here and in the
modules beside this one, what a method adds in ``methods``.
"""

import math
from collections.abc import Mapping
from typing import Any

from ..console.options import check_ranges
from ..console.tables import reasons_table
from ..console.wording import counted, wrapped
from ..datasets.image_index import heic_remedy
from ..errors import UserValueError
from ..pyramid import MOST_PX, ViewLayout
from .backbones import find_backbone
from .methods import Recipe, RecipeMethod, RecipeRow
from .methods.method import COCO_IMAGES, round_within
from .optimizer import choose_optimizer
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
_MAX_KINDS = 5
EPOCHS = (100, 800)
"""Least and most that are chosen: as on ImageNet in the paper, and as SwAV's longest training."""


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
    layout, why_views = _choose_views(published, short_side_px, on_gpu, asked.image_px)
    views = ViewLayout.build(layout)
    found = find_backbone(asked.backbone or DEFAULT_BACKBONE, {group.px for group in views.groups})
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
    optimizer, warmup_epochs, optimizer_row = choose_optimizer(
        method,
        found,
        num_images=num_images,
        step_images=batch * num_devices,
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        asked_lr=asked.lr,
    )
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
        optimizer=optimizer,
        warmup_epochs=warmup_epochs,
        rows={
            "views": RecipeRow(_views_text(views), why_views),
            "batch": RecipeRow(f"{counted(batch, 'image')} x {devices}{parts}", why_batch),
            "epochs": RecipeRow(f"{epochs}, {num_steps}", why_epochs),
            "optimizer": optimizer_row,
        },
    )
    method.add_to(recipe)
    return recipe


def describe(recipe: Recipe, source: str, skipped: Mapping[str, int]) -> str:
    """Return the recipe as rows of choice and reason, warnings last."""
    title = f"{recipe.method.title}, {recipe.backbone.name}, images of {source}"
    images = describe_images(recipe.num_images, skipped)
    warnings = [wrapped(f"warning: {text}") for text in recipe.warnings]
    return "\n".join([title, images, reasons_table(recipe.rows), *warnings])


def describe_images(num_images: int, skipped: Mapping[str, int]) -> str:
    """Return the number of images and of other files: ``54 images; 6 .heic skipped``."""
    text = f"{num_images:,} images"
    kinds = sorted(skipped.items(), key=lambda item: -item[1])
    if kinds:
        rest = sum(count for _, count in kinds[_MAX_KINDS:])
        named = [f"{count:,} {kind}" for kind, count in kinds[:_MAX_KINDS]]
        others = f" and {counted(rest, 'other')}" if rest else ""
        text += f"; {', '.join(named)}{others} skipped"
    remedy = heic_remedy(skipped)
    return f"{text} ({remedy})" if remedy else text


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
    paper: Mapping[str, Any], short_side_px: int, on_gpu: bool, image_px: int | None
) -> tuple[dict[str, Any], str]:
    """Return the paper's views, dicts of ``ViewLayout``, scaled to images and device; and why.

    Without ``image_px`` the scale follows the typical shorter side of the images and the device.
    """
    if image_px is None:
        scale = min(1.0, short_side_px / FULL_SHORT_SIDE_PX) * (1.0 if on_gpu else CPU_SCALE)
    elif image_px % SIZE_STEP_PX or not 2 * SIZE_STEP_PX <= image_px <= MOST_PX:
        raise UserValueError(
            f"image_px must be a multiple of {SIZE_STEP_PX} from {2 * SIZE_STEP_PX} to {MOST_PX}, "
            f"but got {image_px}; the nearest is {min(MOST_PX, _size(image_px))}."
        )
    else:
        scale = image_px / paper["image_px"]
    if scale == 1:
        return dict(paper), "the paper's sizes"
    layout = {
        **paper,
        "image_px": _size(paper["image_px"] * scale),
        "small_px": _size(paper["small_px"] * scale),
        "levels": [_scaled(level, scale) for level in paper["levels"]],
    }
    if image_px is not None:
        return layout, "as asked, the others in proportion"
    device = "GPU" if on_gpu else "CPU"
    return layout, f"sizes for {short_side_px} px photographs on a {device}"


def _scaled(level: Mapping[str, Any], scale: float) -> dict[str, Any]:
    """Return a level with other patches, and its image in the same proportion to them."""
    patch_px = _size(level["patch_px"] * scale)
    resize_px = math.ceil(patch_px * level["resize_px"] / level["patch_px"])
    return {**level, "patch_px": patch_px, "resize_px": resize_px}


def _size(px: float) -> int:
    return max(2 * SIZE_STEP_PX, SIZE_STEP_PX * round(px / SIZE_STEP_PX))
