"""Features of images, a batch at a time: one decode per image, whatever is cut from it.

Legend: B images of a batch, R crops of each, C features, M crops of one scale.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from ..console.progress import watch
from ..datasets import ImageReadError
from ..errors import UserValueError
from ..system.shared_memory import check_room
from .crops import Crops
from .embeddings import Embeddings
from .frozen_backbone import FrozenBackbone
from .images import Images


class _Batch(NamedTuple):
    """Images of one batch, as a loader's worker hands them over."""

    indices: list[int]
    crops: list[Tensor]  # per scale uint8 (B, M, 3, px, px)
    boxes: np.ndarray  # (B, R, 4)
    unreadable: list[tuple[str, str]]


def extract(
    model: FrozenBackbone,
    images: Images,
    crops: Crops,
    *,
    start: int = 0,
    batch_size: int = 64,
    num_workers: int = 0,
    device: torch.device,
    progress: bool = True,
) -> Iterator[tuple[int, Embeddings]]:
    """Yield the embeddings of one batch after the other, each with the number of images so far.

    Args:
        model: In eval mode; it is moved to ``device``.
        images: Their unreadable ones have no rows.
        crops: What is cut from each.
        start: Index of the first image.
        batch_size: Images per batch; the features do not depend on it.
        num_workers: Processes that read images.
        device: Where the backbone runs.
        progress: Whether to draw a progress bar, if there is a terminal.

    Raises:
        OSError: As ``check_room``.
        ValueError: Features that are not finite.
    """
    loader: DataLoader = DataLoader(
        range(start, len(images)),  # type: ignore[arg-type]
        batch_size,
        num_workers=num_workers,
        collate_fn=partial(_load, images, crops),
    )
    check_room(loader, crops.num_bytes)
    model.to(device)
    num_done = start
    for batch in watch(loader, "embedding", shown=progress):
        num_done = min(num_done + batch_size, len(images))
        yield num_done, _embed(model, images, crops, batch, batch_size, device)


def _load(images: Images, crops: Crops, indices: list[int]) -> _Batch:
    good, cut, boxes, unreadable = [], [], [], []
    for index in indices:
        try:
            image = images.load(index)
        except ImageReadError as error:
            unreadable.append((images.names[index], error.reason))
            continue
        good.append(index)
        cut.append(crops.cut(image))
        boxes.append(crops.boxes(*image.shape[1:]))
    by_scale = [torch.stack(scale) for scale in zip(*cut, strict=True)]
    stacked = np.stack(boxes) if boxes else np.empty((0, len(crops.scales), 4), np.float32)
    return _Batch(good, by_scale, stacked, unreadable)


def _embed(
    model: FrozenBackbone,
    images: Images,
    crops: Crops,
    batch: _Batch,
    batch_size: int,
    device: torch.device,
) -> Embeddings:
    count, num_crops = len(batch.indices), len(crops.scales)
    features = np.empty((0, 0), np.float32)
    if count:
        scales = [_run(model, scale, batch_size, crops.image_px, device) for scale in batch.crops]
        joined = torch.cat(scales, dim=1)  # (B, R, C)
        if not joined.isfinite().all():
            bad = int((~joined.isfinite()).flatten(1).any(dim=1).sum())
            raise UserValueError(
                f"features must be finite, but {bad} of {count} images gave NaN or infinity; "
                "check the weights."
            )
        features = joined.flatten(0, 1).numpy()  # (B R, C)
    return Embeddings(
        [images.names[index] for index in batch.indices for _ in range(num_crops)],
        np.tile(crops.scales, count),
        np.tile(crops.cells, count),
        batch.boxes.reshape(-1, 4),
        features,
        unreadable=batch.unreadable,
    )


@torch.inference_mode()
def _run(
    model: FrozenBackbone, crops: Tensor, batch_size: int, image_px: int, device: torch.device
) -> Tensor:
    """Return features (B, M, C) on the CPU of uint8 (B, M, 3, px, px)."""
    flat = crops.flatten(0, 1)  # (B M, 3, px, px)
    # As many pixels at a time as a batch of whole images has.
    size = max(1, batch_size * image_px**2 // flat.shape[-1] ** 2)
    parts = [
        model(model.normalise(part.to(device, non_blocking=True))).float().cpu()
        for part in flat.split(size)
    ]
    return torch.cat(parts).unflatten(0, crops.shape[:2])
