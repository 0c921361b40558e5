"""MoCo v2 and DenseCL: the queue of keys, their network's momentum, and groups of BatchNorm."""

from dataclasses import dataclass

from ...console.wording import counted
from ...errors import UserValueError
from .method import Additions, RecipeMethod, RecipeRow, RecipeSetting
from .momentum import momentum_for

QUEUED_SHARE = 1 / 2
"""Most of the images whose keys are queued: in a longer queue a query meets, as a negative, the key
that its own image had in the epoch before."""
GROUP_IMAGES = {"CPU": 16, "GPU": 32}
"""Images that BatchNorm sees together; published: 8 groups of 32."""

_CELL_PX = 32
_LEAST_CELLS = 3
"""Cells a side of a map below which there is next to nothing to match."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ContrastMethod(RecipeMethod):
    """A method that tells its keys from those in a queue."""

    adamw_warmup_epochs: int = 1

    def additions(self, setting: RecipeSetting) -> Additions:
        """Choose the queue, the momentum and the groups.

        Raises:
            ValueError: A step has as many images as there are.
        """
        length, why_length, warnings = _choose_queue(self, setting)
        momentum, why_momentum = momentum_for(setting.num_steps, self.coco.model.momentum)
        groups, why_groups = _choose_groups(setting)
        values = {
            "model.neck.hid_channels": setting.backbone.channels,  # C -> C, as published
            "model.queue_length": length,
            "model.momentum": momentum,
            "model.bn_groups": groups,
        }
        rows = {
            "negatives": RecipeRow(f"{length} keys", why_length),
            "momentum": RecipeRow(f"{momentum:.4g}", why_momentum),
            "BatchNorm": RecipeRow(f"{counted(groups, 'group')} per device", why_groups),
        }
        return Additions(values, rows, warnings)


@dataclass(frozen=True, eq=False, kw_only=True)
class DenseContrastMethod(ContrastMethod):
    """The same for the cells of a feature map."""

    def additions(self, setting: RecipeSetting) -> Additions:
        """Choose when the term of the cells starts, too.

        Raises:
            ValueError: The backbone gives a pooled feature, or as the other methods.
        """
        if not setting.backbone.gives_map:
            raise UserValueError(
                f"{self.key} needs a backbone that gives a feature map, whose cells it matches, "
                f"but {setting.backbone.name} gives one pooled feature; choose a ResNet, "
                "convnext-tiny or swin-tiny."
            )
        added = super().additions(setting)
        # The features that match the cells are random at first, and a short run has few epochs.
        start = 1 if setting.uses_adamw and setting.epochs > 1 else 0
        added.values["model.dense_start_epoch"] = start
        cells = -(-setting.layout["image_px"] // _CELL_PX)
        added.rows["dense term"] = RecipeRow(
            f"{cells} x {cells} cells, from epoch {start}",
            "later than published: the first matches are random" if start else "as published",
        )
        if cells < _LEAST_CELLS:
            added.warnings.append(
                f"views of {setting.layout['image_px']} px have {cells} x {cells} cells, which "
                "leaves DenseCL next to nothing to match; larger images would help."
            )
        return added


def _choose_queue(method: RecipeMethod, setting: RecipeSetting) -> tuple[int, str, list[str]]:
    """Return K, why, and warnings of a queue too long for the data."""
    published = method.coco.model.queue_length
    most = int(setting.num_images * QUEUED_SHARE)
    length = max(min(published, most), setting.step_images + 1)
    reason = f"half of the images, at most {published}, more than a step"
    if length > setting.num_images:
        raise UserValueError(
            f"{method.key} needs a queue of more keys than a step has, and of at most all "
            f"{setting.num_images} images, but a step has {setting.step_images}; lower "
            "batch_size, use fewer gpus, or add images."
        )
    if length <= most:
        return length, reason, []
    warning = (
        f"the queue must have more than the {setting.step_images} keys of a step, but with "
        f"{length} it holds more than half of the {setting.num_images} images, so that queries "
        "meet keys of their own image as negatives; a smaller batch_size would help."
    )
    return length, reason, [warning]


def _choose_groups(setting: RecipeSetting) -> tuple[int, str]:
    """Return the groups of one device: as many as are large enough, but two in all if possible."""
    if not setting.backbone.has_batch_norm:
        return 1, "the network has no BatchNorm"
    batch, place = setting.batch_size, "GPU" if setting.on_gpu else "CPU"
    # A group of one image can have one value per channel, which BatchNorm refuses.
    counts = [n for n in range(1, batch // 2 + 1) if batch % n == 0]
    apart = [n for n in counts if n * setting.num_devices >= 2]
    large = [n for n in apart if batch // n >= GROUP_IMAGES[place]]
    groups = max(large, default=min(apart, default=1))
    if groups * setting.num_devices < 2:
        # The model itself warns of it when the training starts, and names the remedy.
        return groups, f"a batch of {batch} has no two groups of two images"
    return groups, f"of {batch // groups} images, so that key and query are normalised apart"
