"""What each family of methods adds to a recipe.

MoCo v2, what builds on it and BYOL have a network that averages another one; SS-PRL and SwAV have
prototypes, queues, freezing and a sharpness of the codes.
"""

import math
from dataclasses import dataclass
from typing import Any

from ...console.wording import counted
from ...errors import UserValueError
from .method import (
    COCO_IMAGES,
    Recipe,
    RecipeMethod,
    RecipeRow,
    between,
    momentum_for,
    round_within,
)

LONGEST_STEPS = 1_000_000
"""Updates from which on m_0 is that of the paper's longest training, of 1,000 epochs."""
LONGEST_MOMENTUM = 0.996
QUEUED_SHARE = 1 / 2
"""Most of the images whose keys are queued: in a longer queue a query meets, as a negative, the key
that its own image had in the epoch before. Of prototypes it is the most of the data's embeddings in
batch and queue: more would be the same images over again."""
GROUP_IMAGES = {"CPU": 16, "GPU": 32}
"""Images that BatchNorm sees together; published: 8 groups of 32."""

_CELL_PX = 32
_LEAST_CELLS = 3
"""Cells a side of a map below which there is next to nothing to match."""

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
class TargetMethod(RecipeMethod):
    """A method that predicts what a slowly moving target makes of the other view."""

    adamw_warmup_epochs: int = 1

    def add_to(self, recipe: Recipe) -> None:
        """Choose m_0, from which the momentum rises to 1."""
        longest = recipe.num_steps >= LONGEST_STEPS
        published = LONGEST_MOMENTUM if longest else self.coco.model.base_momentum
        momentum, reason = momentum_for(recipe.num_steps, published)
        recipe.values["model.base_momentum"] = momentum
        recipe.rows["momentum"] = RecipeRow(f"{momentum:.4g}, rising to 1", reason)


@dataclass(frozen=True, eq=False, kw_only=True)
class ContrastMethod(RecipeMethod):
    """A method that tells its keys from those in a queue."""

    adamw_warmup_epochs: int = 1

    def add_to(self, recipe: Recipe) -> None:
        """Choose the queue, the momentum and the groups; a step must have fewer than all images."""
        length, why_length = _choose_queue(self, recipe)
        momentum, why_momentum = momentum_for(recipe.num_steps, self.coco.model.momentum)
        groups, why_groups = _choose_groups(recipe)
        recipe.values |= {
            "model.neck.hid_channels": recipe.backbone.channels,  # C -> C, as published
            "model.queue_length": length,
            "model.momentum": momentum,
            "model.bn_groups": groups,
        }
        recipe.rows |= {
            "negatives": RecipeRow(f"{length} keys", why_length),
            "momentum": RecipeRow(f"{momentum:.4g}", why_momentum),
            "BatchNorm": RecipeRow(f"{counted(groups, 'group')} per device", why_groups),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class DenseContrastMethod(ContrastMethod):
    """The same for the cells of a feature map."""

    def add_to(self, recipe: Recipe) -> None:
        """Choose when the term of the cells starts, too; the backbone must give a map of them."""
        cells = _count_cells(self, recipe, "whose cells it matches")
        super().add_to(recipe)
        # The features that match the cells are random at first, and a short run has few epochs.
        start = 1 if recipe.uses_adamw and recipe.epochs > 1 else 0
        recipe.values["model.dense_start_epoch"] = start
        recipe.rows["dense term"] = RecipeRow(
            f"{cells} x {cells} cells, from epoch {start}",
            "later than published: the first matches are random" if start else "as published",
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class PastedContrastMethod(ContrastMethod):
    """The same for crops on canvases, found again on each level of a feature pyramid."""

    def add_to(self, recipe: Recipe) -> None:
        """Add what the others do; the backbone must have stages, and its head is its own."""
        _require_stages(self, recipe)
        super().add_to(recipe)
        del recipe.values["model.neck.hid_channels"]
        num = recipe.backbone.cfg.get("num_stages", 4)
        row = recipe.rows["negatives"]
        recipe.rows["negatives"] = row._replace(choice=f"{num} x {row.choice}, of each level")


@dataclass(frozen=True, eq=False, kw_only=True)
class RegionContrastMethod(ContrastMethod):
    """The same for a masked region of a feature map."""

    def add_to(self, recipe: Recipe) -> None:
        """Scale the sides of regions with the views; the backbone must give a map of cells."""
        _count_cells(self, recipe, "of which it masks a region")
        super().add_to(recipe)
        published = self.coco.train_dataloader.dataset.pipeline[0].box_px
        scale = recipe.layout["image_px"] / self.coco.layout.image_px
        low, high = (round(side * scale) for side in published)
        recipe.values["train_dataloader.dataset.pipeline.0.box_px"] = (low, high)
        recipe.rows["regions"] = RecipeRow(
            f"{low} to {high} px", "in proportion to the views; assumed, as all of MaskCo"
        )


def _count_cells(method: RecipeMethod, recipe: Recipe, why: str) -> int:
    """Return the cells a side of a view's map; warn of few, and refuse a backbone without a map."""
    if not recipe.backbone.gives_map:
        raise UserValueError(
            f"{method.key} needs a backbone that gives a feature map, {why}, but "
            f"{recipe.backbone.name} gives one pooled feature; choose a ResNet, convnext-tiny or "
            "swin-tiny."
        )
    px = recipe.layout["image_px"]
    cells = -(-px // _CELL_PX)
    if cells < _LEAST_CELLS:
        recipe.warnings.append(
            f"views of {px} px have {cells} x {cells} cells, which leaves {method.title} next to "
            "nothing to match; larger images would help."
        )
    return cells


@dataclass(frozen=True, eq=False, kw_only=True)
class StageContrastMethod(ContrastMethod):
    """The same for the stages of a backbone."""

    def add_to(self, recipe: Recipe) -> None:
        """Choose the squares of the jigsaws; a backbone must have the stages of a ResNet."""
        _require_stages(self, recipe)
        super().add_to(recipe)
        model = self.coco.model
        cell, published = (
            layout["small_px"] // model.grid for layout in (recipe.layout, model.layout)
        )
        px = recipe.values["model.patch_px"] = round(cell * model.patch_px / published)
        squares = f"{model.grid} x {model.grid} squares of {px} px"
        recipe.rows["jigsaw"] = RecipeRow(squares, "as published, in proportion to the views")


def _require_stages(method: RecipeMethod, recipe: Recipe) -> None:
    if not recipe.backbone.is_resnet:
        raise UserValueError(
            f"{method.key} needs a ResNet of mmpretrain, of whose stages it takes the maps, but "
            f"got {recipe.backbone.name}; choose resnet18, resnet34, resnet50 or resnet101."
        )


def _choose_queue(method: RecipeMethod, recipe: Recipe) -> tuple[int, str]:
    """Return K and why; warn of a queue too long for the data."""
    published = method.coco.model.queue_length
    most = int(recipe.num_images * QUEUED_SHARE)
    length = max(min(published, most), recipe.step_images + 1)
    if length > recipe.num_images:
        raise UserValueError(
            f"{method.key} needs a queue of more keys than a step has, and of at most all "
            f"{recipe.num_images} images, but a step has {recipe.step_images}; lower batch_size, "
            "use fewer gpus, or add images."
        )
    if length > most:
        recipe.warnings.append(
            f"the queue must have more than the {recipe.step_images} keys of a step, but with "
            f"{length} it holds more than half of the {recipe.num_images} images, so that queries "
            "meet keys of their own image as negatives; a smaller batch_size would help."
        )
    return length, f"half of the images, at most {published}, more than a step"


def _choose_groups(recipe: Recipe) -> tuple[int, str]:
    """Return the groups of one device: as many as are large enough, but two in all if possible."""
    if not recipe.backbone.has_batch_norm:
        return 1, "the network has no BatchNorm"
    batch, place = recipe.batch_size, "GPU" if recipe.on_gpu else "CPU"
    # A group of one image can have one value per channel, which BatchNorm refuses.
    counts = [n for n in range(1, batch // 2 + 1) if batch % n == 0]
    apart = [n for n in counts if n * recipe.num_devices >= 2]
    large = [n for n in apart if batch // n >= GROUP_IMAGES[place]]
    groups = max(large, default=min(apart, default=1))
    if groups * recipe.num_devices < 2:
        # The model itself warns of it when the training starts, and names the remedy.
        return groups, f"a batch of {batch} has no two groups of two images"
    return groups, f"of {batch // groups} images, so that key and query are normalised apart"


@dataclass(frozen=True, eq=False, kw_only=True)
class PrototypeMethod(RecipeMethod):
    """A method that predicts balanced assignments to prototypes."""

    # 4e-3 and 2e-3 are the best of SS-PRL's default and released forms and of SwAV with small
    # views; SwAV without them is level from 1.3e-3 to 4e-3.
    adamw_lr: float = 3e-3
    lr_decay: float = 1000  # as in the released recipe

    def add_to(self, recipe: Recipe) -> None:
        """Choose targets, prototypes, queues and freezing; cells need a backbone with a map."""
        if recipe.layout.get("cells"):
            _count_cells(self, recipe, "out of which it cuts cells")
        epsilon, jitter, why_targets = ADAMW_TARGETS if recipe.uses_adamw else PUBLISHED_TARGETS
        coco, imagenet = self.coco, self.imagenet
        coco_k = coco.model.head.num_prototypes
        limits = (LEAST_PROTOTYPES, imagenet.model.head.num_prototypes)
        k_0 = round_within(recipe.num_images * coco_k / COCO_IMAGES, limits)
        k_s = max(LEAST_PROTOTYPES, k_0 // 2)
        length, *patch_lengths = _queue_lengths(self, recipe, k_0, k_s)
        of_coco, of_in1k = (
            cfg.model.head.queue_start_epoch / cfg.train_cfg.max_epochs for cfg in (coco, imagenet)
        )
        start_epoch = math.ceil(recipe.epochs * between(of_coco, of_in1k, recipe.num_images))
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
