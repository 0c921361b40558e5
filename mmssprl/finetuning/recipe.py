"""Choose the numbers of a fine-tuning from the number of images, the devices and the weights."""

import math
from dataclasses import dataclass

from mmengine.config import Config

from ..console.wording import counted
from ..errors import UserValueError
from ..pretraining.methods.method import RecipeRow, round_within
from ..weights import RANDOM
from .options import LEAST_BATCH, FinetuneOptions

LEAST_STEPS_PER_EPOCH = 8
"""The batch is chosen so small that little data, too, gives this many updates an epoch."""
LEAST_CHOSEN_BATCH = 4
"""BatchNorm's statistics of fewer images mislead small networks."""
LEAST_WARMUP = 2
"""Steps: mmengine's LinearLR ends below the full rate after one."""
VALIDATIONS = 5
"""About as many in a training, the last one after the last epoch."""


@dataclass(frozen=True)
class FinetuneRecipe:
    """The numbers of a training: per device and step, and of AdamW.

    ``image_px`` is, to classify, the side of the crop; to detect, the shorter side, the longer one
    being at most 5/3 of it; to segment, the side of the crop in training and the shorter side
    otherwise. ``rows`` is what is printed.
    """

    epochs: int
    batch_size: int
    steps_per_epoch: int
    lr: float
    warmup_iters: int
    image_px: int
    num_devices: int
    on_gpu: bool
    rows: dict[str, RecipeRow]

    @property
    def val_interval(self) -> int:
        """Epochs between two validations."""
        return max(1, self.epochs // VALIDATIONS)


def choose_recipe(
    weights: str,
    asked: FinetuneOptions,
    base: Config,
    num_images: int,
    *,
    num_devices: int = 1,
    on_gpu: bool = False,
) -> FinetuneRecipe:
    """Choose what was not asked for, by the numbers of a task's base config.

    ValueError if the images do not fill a batch.
    """
    usual = base.usual
    device = "GPU" if on_gpu else "CPU"
    px, why_px = asked.image_px, "as asked"
    if px is None:
        px, why_px = usual.image_px, f"on a {device}"
    batch, why_batch = asked.batch_size, "as asked"
    largest = num_images // num_devices
    if batch is None:
        most, each = usual.batch_size, max(1, largest)
        fitting = max(min(LEAST_CHOSEN_BATCH, each), each // LEAST_STEPS_PER_EPOCH)
        batch = min(most, 2 ** int(math.log2(fitting)))
        why_batch = f"at most {most} per {device}, and about {LEAST_STEPS_PER_EPOCH} steps an epoch"
    if not LEAST_BATCH <= batch <= largest:
        fits = f"choose a batch_size from {LEAST_BATCH} to {largest}"
        raise UserValueError(
            f"a step needs {LEAST_BATCH} images per device and at most all {num_images}, but got "
            f"{batch} on {counted(num_devices, 'device')}; "
            f"{fits if largest > 1 else 'add images'}, or use fewer devices (CUDA_VISIBLE_DEVICES)."
        )
    epochs, why_epochs = asked.epochs, "as asked"
    if epochs is None:
        low, high = usual.epochs
        epochs = round_within(usual.images_seen / num_images, usual.epochs)
        why_epochs = f"{usual.images_seen:,} images seen, from {low} to {high} epochs"
    steps_per_epoch = math.ceil(num_images / num_devices) // batch
    if asked.lr is not None:
        lr, why_lr = asked.lr, "as asked"
    elif weights == RANDOM:
        lr, why_lr = base.random_lr, "from random weights"
    elif asked.freeze:
        lr, why_lr = base.frozen_lr, "of heads on a frozen backbone"
    else:
        lr, why_lr = base.base_lr, "of pre-trained weights"
    num_steps = epochs * steps_per_epoch
    warmup = min(base.most_warmup_iters, int(base.warmup_share * num_steps))
    if warmup < LEAST_WARMUP:
        warmup = 0
    rises = f" after {counted(warmup, 'step')} of warm-up" if warmup else ""
    rows = {
        "images": RecipeRow(f"{px} px", why_px),
        "batch": RecipeRow(
            f"{counted(batch, 'image')} x {counted(num_devices, 'device')}", why_batch
        ),
        "epochs": RecipeRow(f"{epochs}, {counted(num_steps, 'update')}", why_epochs),
        "optimizer": RecipeRow(f"AdamW, lr {lr:.3g}, cosine{rises}", why_lr),
        "backbone": RecipeRow("frozen", "as asked")
        if asked.freeze
        else RecipeRow("trained", "freeze keeps it"),
    }
    return FinetuneRecipe(
        epochs=epochs,
        batch_size=batch,
        steps_per_epoch=steps_per_epoch,
        lr=lr,
        warmup_iters=warmup,
        image_px=px,
        num_devices=num_devices,
        on_gpu=on_gpu,
        rows=rows,
    )
