"""Choose a pre-training recipe from the number of images and devices.

The anchor is the released recipe on COCO train2014 (82,783 images, batch 128, 200 epochs, LARC at
lr 0.6, 300 / 150 prototypes, queues of 1,920 / 4,992 rows over its 2 GPUs); the rules below give
it back for that input and scale it for others.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import UserValueError
from .pyramid import ViewLayout

COCO_IMAGES = 82_783
COCO_BATCH = 128
COCO_EPOCHS = 200
COCO_LR = 0.6
COCO_PROTOTYPES = 300
IN1K_PROTOTYPES = 3000
QUEUE_START = 80 / COCO_EPOCHS
COCO_QUEUE = 1920
COCO_PATCH_QUEUE = 4992
"""Rows of both queues per view, over all ranks."""
MIN_PROTOTYPES = 30
LARC_MIN_STEPS = 50_000
"""Updates at lr 0.6 from which on LARC is chosen; what moves the weights is updates x lr. The
published COCO run has 129,200. Short runs, or long ones at a lower rate, stay at ln K, where AdamW
learns: on 800 generated scenes LARC had not left it after 3,650 updates at lr 0.15."""
ADAMW_LR = 1e-3
ADAMW_BATCH = 64
FULL_SHORT_SIDE_PX = 256
"""Images at least this large on their short side are cut at the paper's sizes."""
SIZE_STEP_PX = 16
"""View sizes are multiples of it, as patch embeddings of transformers need."""

BACKBONES: dict[str, tuple[dict[str, Any], int]] = {
    "resnet18": ({"type": "ResNet", "depth": 18}, 512),
    "resnet50": ({"type": "ResNet", "depth": 50}, 2048),
    "vit-small": (
        {
            "type": "VisionTransformer",
            "arch": "deit-small",
            "img_size": 224,
            "patch_size": 16,
            "out_type": "avg_featmap",
        },
        384,
    ),
    "swin-tiny": ({"type": "SwinTransformer", "arch": "tiny", "pad_small_map": True}, 768),
}
"""mmpretrain's config of each backbone, and the size of its pooled features."""


@dataclass(frozen=True)
class Recipe:
    """What to train and with which numbers.

    Args:
        backbone: Name in ``BACKBONES``.
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
    reasons: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


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
    accumulation: int = 1,
) -> Recipe:
    """Scale the released COCO recipe to other data and devices.

    Args:
        num_images: Images to train on, at least 8.
        short_side_px: Typical shorter side of the images.
        paper_layout: The views of the paper, dict of ``ViewLayout``'s fields.
        num_devices: GPUs, or 1 for a CPU.
        on_gpu: Whether the devices are GPUs; on a CPU the views are half as large.
        backbone: Name in ``BACKBONES``.
        variant: 'paper', or 'released' with six small views.
        epochs: None chooses.
        batch_size: Images per device that the backbone sees at once; None chooses.
        accumulation: How many of them make one step. LARC's learning rate is in proportion to
            the images of a step, AdamW's up to 64 images and not beyond.

    Returns:
        The recipe, with a reason for each choice.

    Raises:
        ValueError: Too few images for one batch, or a number out of range.
    """
    for name, value in (
        ("epochs", epochs),
        ("batch_size", batch_size),
        ("accumulate", accumulation),
    ):
        if value is not None and value < 1:
            raise UserValueError(f"{name} must be >= 1, but got {value}.")
    reasons, warnings = {}, []
    layout, reasons["views"] = _choose_layout(paper_layout, short_side_px, on_gpu, variant)
    if batch_size is None:
        batch_size, reasons["batch"] = _choose_batch(num_images, num_devices, on_gpu)
    else:
        reasons["batch"] = "as asked"
    if accumulation > 1:
        reasons["batch"] += f", times {accumulation} as asked"
    if accumulation * batch_size * num_devices > num_images or batch_size < 2:
        times = f" {accumulation} times" if accumulation > 1 else ""
        largest = num_images // (accumulation * num_devices)
        fitting = f"choose a batch size from 2 to {largest}, " if largest >= 2 else ""
        raise UserValueError(
            f"a step needs 2 images per device and at most all {num_images} images, but got "
            f"batch size {batch_size}{times} on {num_devices} device(s); {fitting}"
            f"{'lower --accumulate, ' if times else ''}use fewer devices "
            "(CUDA_VISIBLE_DEVICES), or add images."
        )
    batch_size *= accumulation
    step_images = batch_size * num_devices
    steps_per_epoch = math.ceil(num_images / num_devices) // batch_size  # of one process
    if epochs is None:
        epochs = _round_to(COCO_EPOCHS * COCO_IMAGES / num_images, 10, low=100, high=800)
        reasons["epochs"] = "as many images seen as in 200 epochs of COCO, from 100 to 800 epochs"
    else:
        reasons["epochs"] = "as asked"
    optimizer, reasons["optimizer"] = _choose_optimizer(
        step_images, epochs * steps_per_epoch, backbone
    )
    short = optimizer["type"] != "LARC"
    reasons["targets"] = (
        "sharper codes and half the colour jitter: AdamW collapsed or stood still with the paper's"
        if short
        else "as in the paper"
    )
    k_0 = _round_to(num_images * COCO_PROTOTYPES / COCO_IMAGES, 10, MIN_PROTOTYPES, IN1K_PROTOTYPES)
    k_s = max(MIN_PROTOTYPES, k_0 // 2)
    reasons["prototypes"] = (
        f"one per {COCO_IMAGES // COCO_PROTOTYPES} images as on COCO, from {MIN_PROTOTYPES} to "
        f"{IN1K_PROTOTYPES}; half of it for patches"
    )
    patches = ViewLayout.build(layout).patches_per_scale
    lengths = []
    for scale, num_patches in enumerate(patches):
        k, coco_k = (k_s, COCO_PROTOTYPES / 2) if scale else (k_0, COCO_PROTOTYPES)
        coco_rows = num_patches * COCO_BATCH + (COCO_PATCH_QUEUE if scale else COCO_QUEUE)
        step_rows = num_patches * step_images  # over all devices, as ``coco_rows``
        wanted = min(coco_rows * k / coco_k, num_patches * num_images / 2) - step_rows
        lengths.append(max(0, int(wanted / num_devices)))
        if step_rows + num_devices * lengths[-1] < k:
            warnings.append(
                f"scale {scale}: batch + queue = {step_rows + num_devices * lengths[-1]} "
                f"embeddings are assigned to K = {k} prototypes; some stay without any. More "
                "images or a larger --batch-size would help."
            )
    reasons["queues"] = (
        "with the batch as many embeddings per prototype as on COCO, at most half of all; "
        f"used after {QUEUE_START:.0%} of the epochs"
    )
    reasons["freezing"] = "prototypes stay for one epoch, at most 1 % of the steps"
    return Recipe(
        backbone=backbone,
        variant=variant,
        layout=layout,
        batch_size=batch_size,
        num_chunks=accumulation,
        num_devices=num_devices,
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        optimizer=optimizer,
        epsilon=0.02 if short else 0.05,
        jitter=0.4 if short else 0.8,
        num_prototypes=k_0,
        num_patch_prototypes=k_s,
        queue_length=lengths[0],
        patch_queue_length=lengths[1:],
        queue_start_epoch=math.ceil(QUEUE_START * epochs),
        freeze_iters=min(steps_per_epoch, epochs * steps_per_epoch // 100),
        reasons=reasons,
        warnings=warnings,
    )


def _choose_layout(
    paper: Mapping[str, Any], short_side_px: int, on_gpu: bool, variant: str
) -> tuple[dict[str, Any], str]:
    scale = min(1.0, short_side_px / FULL_SHORT_SIDE_PX) * (1.0 if on_gpu else 0.5)
    small = 6 if variant == "released" else 0
    reason = "the paper's sizes"
    layout = {**paper, "num_small": small}
    if scale < 1:
        layout["image_px"] = _size(paper["image_px"] * scale)
        layout["small_px"] = _size(paper["small_px"] * scale)
        layout["levels"] = [
            {
                **level,
                "patch_px": _size(level["patch_px"] * scale),
                "resize_px": math.ceil(
                    _size(level["patch_px"] * scale) * level["resize_px"] / level["patch_px"]
                ),
            }
            for level in paper["levels"]
        ]
        why = [] if on_gpu else ["halved on a CPU"]
        if short_side_px < FULL_SHORT_SIDE_PX:
            why.append(f"scaled to images of {short_side_px} px")
        reason = f"the paper's sizes {' and '.join(why)}, multiples of {SIZE_STEP_PX}"
    if small:
        reason += "; six small views as in the released code"
    return layout, reason


def _choose_batch(num_images: int, num_devices: int, on_gpu: bool) -> tuple[int, str]:
    most = COCO_BATCH // 2 if on_gpu else 32
    # At least 8 steps an epoch, so that small data gets updates too.
    fitting = max(2, num_images // (8 * num_devices))
    batch_size = min(most, 2 ** int(math.log2(fitting)))
    place = "GPU" if on_gpu else "CPU"
    return batch_size, f"at most {most} per {place}, and at least 8 steps an epoch"


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
        cfg = {"type": "LARC", "momentum": 0.9, "weight_decay": 1e-6, "trust_coefficient": 0.001}
        return {**cfg, "lr": larc_lr}, reason
    lr = ADAMW_LR * min(1, batch / ADAMW_BATCH)
    reason = f"{why}; {ADAMW_LR} x min(1, {batch} / {ADAMW_BATCH})"
    return {"type": "AdamW", "lr": lr, "weight_decay": 1e-4}, reason


def _size(px: float) -> int:
    return max(2 * SIZE_STEP_PX, SIZE_STEP_PX * round(px / SIZE_STEP_PX))


def _round_to(value: float, step: int, low: int, high: int) -> int:
    return min(high, max(low, step * round(value / step)))
