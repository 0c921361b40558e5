"""Features of images, a batch at a time: one decode per image, whatever is cut from it.

Legend: B readable images of a batch, R crops of each, C features, M crops of one scale.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from ..console.progress import watch
from ..console.quiet import say
from ..datasets.image_reading import ImageReadError
from ..errors import UserValueError
from ..system.environment import MOST_PROCESSES
from ..system.outputs import check_room
from .backbone import FeatureBackbone, choose_device, in_eval_mode, load_backbone
from .crops import Crops

Weights = str | Path | FeatureBackbone
"""As for ``load_backbone``, or what it returned."""


@dataclass(frozen=True)
class FeatureOptions:
    """How weights become a backbone, and images features; see ``embed``.

    Raises:
        ValueError: A number of images or processes that makes no sense, or no such device.
    """

    config: str | Path | None = None
    image_px: int | None = None
    batch_size: int = 64
    num_workers: int = 0
    device: str | torch.device = "auto"
    seed: int = 0
    progress: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.batch_size, Integral) or self.batch_size < 1:
            raise UserValueError(f"batch_size must be at least 1, but got {self.batch_size!r}.")
        if (
            not isinstance(self.num_workers, Integral)
            or not 0 <= self.num_workers <= MOST_PROCESSES
        ):
            raise UserValueError(
                f"num_workers must be from 0 to {MOST_PROCESSES}, but got {self.num_workers!r}."
            )
        choose_device(self.device)

    def load(self, weights: Weights) -> FeatureBackbone:
        """Load a backbone, or take one that is loaded."""
        if not isinstance(weights, FeatureBackbone):
            return load_backbone(weights, self.config, image_px=self.image_px, seed=self.seed)
        if self.config is None and self.image_px is None:
            return weights
        raise UserValueError(
            "config and image_px belong to the weights, but weights is a loaded backbone; give "
            "them to load_backbone."
        )

    def tell(self, text: str) -> None:
        """Print a line about the progress, if it is wanted."""
        if self.progress:
            say(text)


class Batch(NamedTuple):
    """The features of some images."""

    stop: int  # images so far, with those that are unreadable
    indices: list[int]  # of the B readable ones
    features: Tensor  # float32 (B, R, C) on the CPU, all finite
    boxes: np.ndarray  # what was seen, float32 (B, R, 4), see ``Crops.boxes``
    unreadable: list[tuple[int, str]]  # index and reason


def extract(
    model: FeatureBackbone,
    read: Callable[[int], Tensor],
    indices: range,
    crops: Crops,
    options: FeatureOptions,
) -> Iterator[Batch]:
    """Yield the features of one batch after the other: eval mode, no gradient, average pool.

    The model is moved to the device; which of its modules train is left as it was. ``read`` returns
    an image, uint8 RGB (3, H, W), or raises ``ImageReadError``.
    """
    loader: DataLoader = DataLoader(
        indices,  # type: ignore[arg-type]
        options.batch_size,
        num_workers=options.num_workers,
        collate_fn=partial(_load, read, crops),
    )
    check_room(loader, crops.num_bytes)
    device = choose_device(options.device)
    model.to(device)
    # As many pixels at a time as a batch of whole images has.
    most_pixels = options.batch_size * crops.image_px**2
    with in_eval_mode(model):
        for good, cut, boxes, unreadable in watch(loader, "features", shown=options.progress):
            features = torch.empty(0, len(crops.scales), 0)
            if good:
                parts = [_run(model, flat, most_pixels, device) for flat in cut]
                shaped = [part.unflatten(0, (len(good), -1)) for part in parts]  # (B, M, C)
                features = torch.cat(shaped, dim=1)
            num_bad = int((~features.isfinite()).flatten(1).any(dim=1).sum())
            if num_bad:
                raise UserValueError(
                    f"features must be finite, but {num_bad} of {len(good)} images gave NaN or "
                    "infinity; check the weights."
                )
            stop = max([*good, *(index for index, _ in unreadable)]) + 1
            yield Batch(stop, good, features, boxes, unreadable)


def require_readable(num_readable: int, unreadable: Sequence[tuple[str, str]]) -> None:
    """Refuse images of which none can be read; the unreadable ones have a name and a reason."""
    if not num_readable:
        first = "".join(f" (first {name}: {why})" for name, why in unreadable[:1])
        raise UserValueError(
            f"at least one image must be readable, but none of {len(unreadable)} is{first}; "
            "replace or remove them."
        )


def _load(
    read: Callable[[int], Tensor], crops: Crops, indices: list[int]
) -> tuple[list[int], list[Tensor], np.ndarray, list[tuple[int, str]]]:
    """Return the readable images, their crops by scale, their boxes, and the unreadable ones."""
    good, cut, boxes, unreadable = [], [], [], []
    for index in indices:
        try:
            image = read(index)
        except ImageReadError as error:
            unreadable.append((index, error.reason))
            continue
        good.append(index)
        cut.append(crops.cut(image))
        boxes.append(crops.boxes(*image.shape[1:]))
    by_scale = [torch.cat(scale) for scale in zip(*cut, strict=True)]  # each (B M, 3, px, px)
    stacked = np.stack(boxes) if boxes else np.empty((0, len(crops.scales), 4), np.float32)
    return good, by_scale, stacked, unreadable


@torch.inference_mode()
def _run(model: FeatureBackbone, crops: Tensor, most_pixels: int, device: torch.device) -> Tensor:
    """Return features (B M, C) on the CPU of uint8 (B M, 3, px, px)."""
    parts = [
        model(model.normalise(part.to(device, non_blocking=True))).float().cpu()
        for part in crops.split(max(1, most_pixels // crops.shape[-1] ** 2))
    ]
    return torch.cat(parts)
