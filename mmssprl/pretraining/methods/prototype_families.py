"""What SS-PRL and SwAV add to a recipe: prototypes, queues, freezing, and how sharp codes are."""

import math
from dataclasses import dataclass
from typing import Any

from ...console.wording import counted
from .families import QUEUED_SHARE, count_cells
from .method import COCO_IMAGES, Recipe, RecipeMethod, RecipeRow, between, round_within

LEAST_PROTOTYPES = 30
"""K_0 as for the 24 categories of the sample data."""
MOST_FROZEN_PERCENT = 1
"""Of the steps, for runs of so few epochs that the released recipe's one would be much of them."""

HUE_SHARE = 1 / 4
"""Hue's jitter as a share of the others', as in the released recipe."""
PUBLISHED_TARGETS = (0.05, 0.8, "as in the paper")
"""Sinkhorn's epsilon (small: sharp codes), the strength of the colour jitter, and why."""
ADAMW_TARGETS = (0.02, 0.4, "sharper codes and half the colour jitter, for AdamW")
"""Found on the sample data, where AdamW collapsed or stood still with the paper's, see
``configs/ssprl/ssprl_resnet18_scenes.py``."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PrototypeMethod(RecipeMethod):
    """A method that predicts balanced assignments to prototypes."""

    # 4e-3 and 2e-3 are the best of SS-PRL's default and released forms and of SwAV with small
    # views; SwAV without them is level from 1.3e-3 to 4e-3.
    adamw_lr: float = 3e-3
    lr_decay: float = 1000  # as in the released recipe

    def add_to(self, recipe: Recipe) -> None:
        """Choose targets, prototypes, queues and freezing."""
        targets = ADAMW_TARGETS if recipe.uses_adamw else PUBLISHED_TARGETS
        epsilon, jitter, why_targets = targets
        coco, imagenet = self.coco, self.imagenet
        coco_k = coco.model.head.num_prototypes
        limits = (LEAST_PROTOTYPES, imagenet.model.head.num_prototypes)
        k_0 = round_within(recipe.num_images * coco_k / COCO_IMAGES, limits)
        k_s = max(LEAST_PROTOTYPES, k_0 // 2)
        length, *patch_lengths = _queue_lengths(self, recipe, k_0, k_s)
        start_coco, start_imagenet = (
            cfg.model.head.queue_start_epoch / cfg.train_cfg.max_epochs for cfg in (coco, imagenet)
        )
        start = between(start_coco, start_imagenet, recipe.num_images)
        start_epoch = math.ceil(start * recipe.epochs)
        freeze_iters = min(recipe.steps_per_epoch, recipe.num_steps * MOST_FROZEN_PERCENT // 100)
        recipe.values |= {
            "model.data_preprocessor.brightness": jitter,
            "model.data_preprocessor.contrast": jitter,
            "model.data_preprocessor.saturation": jitter,
            "model.data_preprocessor.hue": jitter * HUE_SHARE,
            "model.num_chunks": recipe.num_chunks,
            "model.head.epsilon": epsilon,
            "model.head.num_prototypes": k_0,
            "model.head.num_patch_prototypes": k_s,
            "model.head.queue_length": length,
            "model.head.patch_queue_length": patch_lengths,
            "model.head.queue_start_epoch": start_epoch,
            "model.head.freeze_epochs": 0,
            "model.head.freeze_iters": freeze_iters,
        }
        prototypes = f"{k_0} / {k_s}" if patch_lengths else str(k_0)
        queues = " / ".join(map(str, [length, *patch_lengths]))
        recipe.rows |= {
            "targets": RecipeRow(f"epsilon {epsilon}, colour jitter {jitter}", why_targets),
            "prototypes": RecipeRow(
                prototypes,
                f"one per {COCO_IMAGES // coco_k} images, from {limits[0]} to {limits[1]}",
            ),
            "queues": RecipeRow(
                f"{queues} rows from epoch {start_epoch}",
                "with the batch at most half of the images",
            ),
            "freezing": RecipeRow(
                counted(freeze_iters, "step"),
                f"prototypes stay for an epoch, at most {MOST_FROZEN_PERCENT} % of the steps",
            ),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class CellMethod(PrototypeMethod):
    """The same with cells of the image views' maps in place of patches."""

    def add_to(self, recipe: Recipe) -> None:
        """Add what the others do; the backbone must give a map to cut cells from."""
        cells = count_cells(self, recipe, "out of which it cuts cells")
        super().add_to(recipe)
        scales = " / ".join(map(str, recipe.layout["cells"]))
        recipe.rows["cells"] = RecipeRow(
            f"of {scales} small views, in maps of {cells} x {cells}", "by size of the small views"
        )


def _queue_lengths(method: RecipeMethod, recipe: Recipe, k_0: int, k_s: int) -> list[int]:
    """Return rows per view and device, one per scale; warn of too few embeddings."""
    from ...pyramid import ViewLayout  # takes torch, for which `--help` does not wait

    def published(cfg: Any) -> int:  # rows of the queue over all GPUs
        head = cfg.model.head
        return (head.patch_queue_length if scale else head.queue_length) * cfg.num_gpus

    lengths = []
    for scale, num_patches in enumerate(ViewLayout.build(recipe.layout).patches_per_scale):
        head = method.coco.model.head
        coco_k = head["num_patch_prototypes" if scale else "num_prototypes"]
        k = k_s if scale else k_0
        step_rows = num_patches * recipe.step_images  # over all devices
        rest = num_patches * recipe.num_images * QUEUED_SHARE - step_rows
        rows = min(published(method.coco) * k / coco_k, published(method.imagenet), rest)
        length = max(0, int(rows / recipe.num_devices))
        lengths.append(length)
        if step_rows + recipe.num_devices * length < k:
            recipe.warnings.append(
                f"scale {scale}: batch + queue = {step_rows + recipe.num_devices * length} "
                f"embeddings are assigned to K = {k} prototypes; some stay without any. More "
                "images or a larger batch_size would help."
            )
    return lengths
