"""What each family of methods adds to a recipe.

MoCo v2, what builds on it and BYOL have a network that averages another one. SS-PRL and SwAV are in
``prototype_families``.
"""

from dataclasses import dataclass

from ...console.wording import counted
from ...errors import UserValueError
from .method import (
    Recipe,
    RecipeMethod,
    RecipeRow,
    momentum_for,
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
        cells = count_cells(self, recipe, "whose cells it matches")
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
        count_cells(self, recipe, "of which it masks a region")
        super().add_to(recipe)
        published = self.coco.train_dataloader.dataset.pipeline[0].box_px
        scale = recipe.layout["image_px"] / self.coco.layout.image_px
        low, high = (round(side * scale) for side in published)
        recipe.values["train_dataloader.dataset.pipeline.0.box_px"] = (low, high)
        recipe.rows["regions"] = RecipeRow(
            f"{low} to {high} px", "in proportion to the views; assumed, as all of MaskCo"
        )


def count_cells(method: RecipeMethod, recipe: Recipe, why: str) -> int:
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
