"""Choose a pre-training recipe from the number of images and devices.

The anchor is the released recipe on COCO train2014 (82,783 images, batch 128, 200 epochs, LARC at
lr 0.6, 300 / 150 prototypes, queues of 1,920 / 4,992 rows over its 2 GPUs). The rules below give
it back for that input and scale it for others; ``choose_recipe`` names them in order.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import UserValueError
from ..pyramid import ViewLayout
from .views import choose_views

COCO_IMAGES = 82_783
COCO_BATCH = 128
COCO_GPUS = 2
COCO_EPOCHS = 200
COCO_LR = 0.6
COCO_PROTOTYPES = 300
COCO_QUEUE = 1920
COCO_PATCH_QUEUE = 4992
"""Rows of both queues per view, over all ranks."""

CPU_BATCH = 32
"""Most images of a step on a CPU; a GPU takes as many as each of the released recipe's."""
LEAST_STEPS_PER_EPOCH = 8
"""The batch is chosen so small that little data, too, gives this many updates an epoch."""
LEAST_BATCH = 2
"""Images of a device and step: the statistics of one image say nothing."""

EPOCHS = (100, 800)
"""Least and most that are chosen: as on ImageNet in the paper, and as SwAV's longest training."""
PROTOTYPES = (30, 3000)
"""Least and most K_0: as for the 24 categories of the sample data, and as SwAV's for ImageNet."""
ROUND_TO = 10
"""Chosen epochs and prototypes are multiples of it, to be read easily."""

QUEUE_START = 80 / COCO_EPOCHS
"""Share of the epochs after which queues are used, from the released recipe's epoch 80."""
QUEUED_SHARE = 1 / 2
"""Most of the data's embeddings in batch and queue: more would be the same images over again."""
MOST_FROZEN_PERCENT = 1
"""Of the steps, for runs of so few epochs that the released recipe's one would be much of them."""

LARC_MIN_STEPS = 50_000
"""Updates at lr 0.6 from which on LARC is chosen; what moves the weights is updates x lr. The
published COCO run has 129,200. Short runs, or long ones at a lower rate, stay at ln K, where AdamW
learns: on 800 generated scenes LARC had not left it after 3,650 updates at lr 0.15."""
LARC = {"type": "LARC", "momentum": 0.9, "weight_decay": 1e-6, "trust_coefficient": 0.001}
ADAMW = {"type": "AdamW", "weight_decay": 1e-4}
ADAMW_LR = 1e-3
ADAMW_BATCH = 64
"""Images of an update up to which AdamW's learning rate grows with them."""

LARC_TARGETS = (0.05, 0.8, "as in the paper")
"""Sinkhorn's epsilon (small: sharp codes), the strength of the colour jitter, and why."""
_COLLAPSED = "AdamW collapsed or stood still with the paper's"
ADAMW_TARGETS = (0.02, 0.4, f"sharper codes and half the colour jitter: {_COLLAPSED}")
"""Found on the sample data, see ``configs/ssprl/ssprl_resnet18_scenes.py``."""


@dataclass(frozen=True)
class Recipe:
    """What to train and with which numbers.

    Args:
        backbone: Name in ``BACKBONES`` of ``config``.
        variant: 'paper' or 'released'.
        layout: The views, as a dict of ``ViewLayout``'s fields.
        batch_size: Images per device and step, which is one update.
        num_chunks: Parts in which the backbone sees them, see ``SSPRL``.
        num_devices: Processes.
        epochs: Passes over the images.
        steps_per_epoch: Batches of one process and epoch.
        optimizer: Config of the optimizer, with its lr.
        epsilon: Sinkhorn's regularisation.
        jitter: Strength of brightness, contrast and saturation; hue has a quarter of it.
        num_prototypes: K_0.
        num_patch_prototypes: K_s, s >= 1.
        queue_length: Rows per view and device at scale 0.
        patch_queue_length: The same, one per level.
        queue_start_epoch: First epoch whose assignments use the queues.
        freeze_iters: Steps without a change of prototypes and correlation learners.
        reasons: Why, by the name printed beside each choice.
        warnings: What the user should know before the run.
    """

    backbone: str
    variant: str
    layout: dict[str, Any]
    batch_size: int
    num_chunks: int
    num_devices: int
    epochs: int
    steps_per_epoch: int
    optimizer: dict[str, Any]
    epsilon: float
    jitter: float
    num_prototypes: int
    num_patch_prototypes: int
    queue_length: int
    patch_queue_length: list[int]
    queue_start_epoch: int
    freeze_iters: int
    reasons: dict[str, str]
    warnings: list[str]


def choose_recipe(
    num_images: int,
    short_side_px: int,
    paper_layout: Mapping[str, Any],
    *,
    num_devices: int = 1,
    on_gpu: bool = False,
    backbone: str = "resnet50",
    variant: str = "paper",
    epochs: int | None = None,
    batch_size: int | None = None,
    accumulate: int = 1,
) -> Recipe:
    """Scale the released COCO recipe to other data and devices.

    Args:
        num_images: Images to train on, at least 8.
        short_side_px: Typical shorter side of the images.
        paper_layout: The views of the paper, dict of ``ViewLayout``'s fields.
        num_devices: GPUs, or 1 for a CPU.
        on_gpu: Whether the devices are GPUs; on a CPU the views are half as large.
        backbone: Name in ``BACKBONES`` of ``config``.
        variant: 'paper', or 'released' with six small views.
        epochs: None chooses.
        batch_size: Images per device that the backbone sees at once; None chooses.
        accumulate: How many of them make one step. LARC's learning rate is in proportion to
            the images of a step, AdamW's up to 64 images and not beyond.

    Returns:
        The recipe, with a reason for each choice.

    Raises:
        ValueError: Too few images for one batch, or a number out of range.
    """
    numbers = {"epochs": epochs, "batch_size": batch_size, "accumulate": accumulate}
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise UserValueError(f"{name} must be >= 1, but got {value}.")
    reasons: dict[str, str] = {}
    layout, reasons["views"] = choose_views(paper_layout, short_side_px, on_gpu, variant)
    batch, reasons["batch"] = _choose_batch(num_images, num_devices, on_gpu, batch_size, accumulate)
    step_images = batch * num_devices
    steps_per_epoch = math.ceil(num_images / num_devices) // batch  # of one process
    epochs, reasons["epochs"] = _choose_epochs(num_images, epochs)
    num_steps = epochs * steps_per_epoch
    optimizer, reasons["optimizer"] = _choose_optimizer(step_images, num_steps, backbone)
    targets = LARC_TARGETS if optimizer["type"] == "LARC" else ADAMW_TARGETS
    epsilon, jitter, reasons["targets"] = targets
    k_0, k_s, reasons["prototypes"] = _choose_prototypes(num_images)
    queues, warnings = _choose_queues(layout, num_images, num_devices, step_images, k_0, k_s)
    reasons["queues"] = (
        "with the batch as many embeddings per prototype as on COCO, at most half of all; "
        f"used after {QUEUE_START:.0%} of the epochs"
    )
    reasons["freezing"] = (
        f"prototypes stay for one epoch, at most {MOST_FROZEN_PERCENT} % of the steps"
    )
    return Recipe(
        backbone=backbone,
        variant=variant,
        layout=layout,
        batch_size=batch,
        num_chunks=accumulate,
        num_devices=num_devices,
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        optimizer=optimizer,
        epsilon=epsilon,
        jitter=jitter,
        num_prototypes=k_0,
        num_patch_prototypes=k_s,
        queue_length=queues[0],
        patch_queue_length=queues[1:],
        queue_start_epoch=math.ceil(QUEUE_START * epochs),
        freeze_iters=min(steps_per_epoch, num_steps * MOST_FROZEN_PERCENT // 100),
        reasons=reasons,
        warnings=warnings,
    )


def _choose_batch(
    num_images: int, num_devices: int, on_gpu: bool, asked: int | None, accumulate: int
) -> tuple[int, str]:
    """Return the images of a step of one device, all its parts together."""
    if asked is None:
        most = COCO_BATCH // COCO_GPUS if on_gpu else CPU_BATCH
        fitting = max(LEAST_BATCH, num_images // (LEAST_STEPS_PER_EPOCH * num_devices))
        part = min(most, 2 ** int(math.log2(fitting)))
        place = "GPU" if on_gpu else "CPU"
        reason = f"at most {most} per {place}, and at least {LEAST_STEPS_PER_EPOCH} steps an epoch"
    else:
        part, reason = asked, "as asked"
    if accumulate > 1:
        reason += f", times {accumulate} as asked"
    if accumulate * part * num_devices > num_images or part < LEAST_BATCH:
        times = f" {accumulate} times" if accumulate > 1 else ""
        largest = num_images // (accumulate * num_devices)
        fits = f"choose a batch size from 2 to {largest}, " if largest >= LEAST_BATCH else ""
        raise UserValueError(
            f"a step needs 2 images per device and at most all {num_images} images, but got "
            f"batch size {part}{times} on {num_devices} device(s); {fits}"
            f"{'lower --accumulate, ' if times else ''}use fewer devices "
            "(CUDA_VISIBLE_DEVICES), or add images."
        )
    return accumulate * part, reason


def _choose_epochs(num_images: int, asked: int | None) -> tuple[int, str]:
    if asked is not None:
        return asked, "as asked"
    low, high = EPOCHS
    epochs = _round_within(COCO_EPOCHS * COCO_IMAGES / num_images, EPOCHS)
    return epochs, (
        f"as many images seen as in {COCO_EPOCHS} epochs of COCO, from {low} to {high} epochs"
    )


def _choose_optimizer(batch: int, total_steps: int, backbone: str) -> tuple[dict[str, Any], str]:
    larc_lr = COCO_LR * batch / COCO_BATCH
    steps_at_coco_lr = round(total_steps * larc_lr / COCO_LR)
    if not backbone.startswith("resnet"):
        why = "transformers are trained with AdamW"
    elif steps_at_coco_lr < LARC_MIN_STEPS:
        why = (
            f"{total_steps} updates at LARC's lr {larc_lr:.3g} are worth {steps_at_coco_lr} at "
            f"{COCO_LR}, too few (below {LARC_MIN_STEPS})"
        )
    else:
        reason = f"{COCO_LR} x {batch} / {COCO_BATCH}, the linear rule over the images of an update"
        return {**LARC, "lr": larc_lr}, reason
    lr = ADAMW_LR * min(1, batch / ADAMW_BATCH)
    return {**ADAMW, "lr": lr}, f"{why}; {ADAMW_LR} x min(1, {batch} / {ADAMW_BATCH})"


def _choose_prototypes(num_images: int) -> tuple[int, int, str]:
    """Return K_0, and K_s of all levels."""
    low, high = PROTOTYPES
    k_0 = _round_within(num_images * COCO_PROTOTYPES / COCO_IMAGES, PROTOTYPES)
    reason = (
        f"one per {COCO_IMAGES // COCO_PROTOTYPES} images as on COCO, from {low} to {high}; "
        "half of it for patches"
    )
    return k_0, max(low, k_0 // 2), reason


def _choose_queues(
    layout: Mapping[str, Any],
    num_images: int,
    num_devices: int,
    step_images: int,
    k_0: int,
    k_s: int,
) -> tuple[list[int], list[str]]:
    """Return rows per view and device, one per scale, and warnings of too few embeddings."""
    lengths, warnings = [], []
    views = ViewLayout.build(layout)
    for scale, num_patches in enumerate(views.patches_per_scale):
        k, coco_k = (k_s, COCO_PROTOTYPES / 2) if scale else (k_0, COCO_PROTOTYPES)
        # On COCO every cell was cut; what a level samples fewer in a step, its queue makes up for.
        num_cells = views.levels[scale - 1].num_cells if scale else 1
        coco_rows = num_cells * COCO_BATCH + (COCO_PATCH_QUEUE if scale else COCO_QUEUE)
        step_rows = num_patches * step_images  # over all devices, as ``coco_rows``
        most_rows = num_patches * num_images * QUEUED_SHARE
        queued_rows = min(coco_rows * k / coco_k, most_rows) - step_rows
        length = max(0, int(queued_rows / num_devices))
        lengths.append(length)
        if step_rows + num_devices * length < k:
            warnings.append(
                f"scale {scale}: batch + queue = {step_rows + num_devices * length} "
                f"embeddings are assigned to K = {k} prototypes; some stay without any. More "
                "images or a larger --batch-size would help."
            )
    return lengths, warnings


def _round_within(value: float, limits: tuple[int, int]) -> int:
    low, high = limits
    return min(high, max(low, ROUND_TO * round(value / ROUND_TO)))
