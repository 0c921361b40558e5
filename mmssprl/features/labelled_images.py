"""Frozen features of labelled images.

Legend: N images, C features, K classes, px side of the square the backbone sees.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, default_collate
from torchvision.transforms.v2 import functional as transforms

from ..console.progress import watch
from ..datasets.image_reading import ImageReadError, read_image
from ..errors import UserValueError
from ..functional.pooling import pool
from ..pyramid import check_px
from ..system.environment import MOST_PROCESSES
from ..system.shared_memory import check_room

RESIZE_RATIO = 256 / 224
"""Shorter side before the centre crop / side of the crop, as in the paper's test protocol."""

IMAGENET_MEAN = (123.675, 116.28, 103.53)
IMAGENET_STD = (58.395, 57.12, 57.375)


class LabelledImages(Dataset):
    """Resized, centre-cropped images with their labels.

    Args:
        paths: N image files.
        labels: (N, K), 1 present, 0 absent, -1 unknown.
        image_px: px; the shorter side is resized to ``px * 256 / 224`` first.
    """

    def __init__(self, paths: Sequence[str | Path], labels: Tensor, image_px: int = 224) -> None:
        if len(paths) != len(labels):
            raise UserValueError(
                f"every image must have a row of labels, but got {len(paths)} images "
                f"and {len(labels)} rows."
            )
        check_px("image_px", image_px)
        self.paths = [str(path) for path in paths]
        self.labels = labels
        self.image_px = image_px

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Return the uint8 RGB crop (3, px, px) and the labels (K,) of one image."""
        return centre_crop(read_image(self.paths[index]), self.image_px), self.labels[index]


def centre_crop(image: Tensor, px: int) -> Tensor:
    """Return what the backbone sees of an image: its centre, uint8 (3, px, px).

    Args:
        image: uint8 (3, H, W); the shorter side is resized to ``px * 256 / 224`` first.
        px: Side of the crop.
    """
    image = transforms.resize(image, [round(px * RESIZE_RATIO)], antialias=True)
    return transforms.center_crop(image, [px, px])


def extract_features(
    backbone: nn.Module,
    dataset: Dataset,
    *,
    mean: Sequence[float] = IMAGENET_MEAN,
    std: Sequence[float] = IMAGENET_STD,
    batch_size: int = 64,
    num_workers: int = 0,
    device: str | torch.device = "cpu",
    progress: bool = True,
    leave_out_unreadable: bool = False,
) -> tuple[Tensor, Tensor]:
    """Run the frozen backbone once over a dataset: eval mode, no gradient, average pool.

    Args:
        backbone: Takes float32 (B, 3, px, px); its last output is pooled. It is moved to
            ``device``; whether it trains is left as it was.
        dataset: Items (uint8 RGB (3, px, px), labels (K,)), such as ``LabelledImages``.
        mean: Per channel, in 0-255, subtracted before the division by ``std``.
        std: Per channel, in 0-255.
        batch_size: Images per forward pass; the features do not depend on it.
        num_workers: Processes that read images; 0 reads in this one.
        device: Where the backbone runs.
        progress: Whether to draw a progress bar, if there is a terminal.
        leave_out_unreadable: Go on without images that cannot be read; N is then less by them.

    Returns:
        Features (N, C) float32 on the CPU, and the labels (N, K).

    Raises:
        OSError: As ``check_room``.
        ValueError: An empty dataset, an image that cannot be read (or, with
            ``leave_out_unreadable``, none that can), or features that are not finite.
    """
    indices = range(len(dataset))  # type: ignore[arg-type]
    loader: DataLoader = DataLoader(
        indices,  # type: ignore[arg-type]
        batch_size,
        num_workers=num_workers,
        collate_fn=partial(_load, dataset, leave_out_unreadable),
    )
    check_room(loader, 3 * getattr(dataset, "image_px", 0) ** 2)
    if not len(indices):
        raise UserValueError("the dataset must hold at least one image, but it is empty.")
    shift = torch.tensor(mean, device=device).view(3, 1, 1)
    scale = torch.tensor(std, device=device).view(3, 1, 1)
    backbone.to(device)
    was_training = {module: module.training for module in backbone.modules()}
    backbone.eval()
    features, labels = [], []
    with torch.inference_mode():
        for batch in watch(loader, "features", shown=progress):
            if isinstance(batch, ImageReadError) and leave_out_unreadable:
                unreadable = batch
                continue
            if isinstance(batch, ValueError):
                raise batch
            images, truth = batch
            images = (images.to(device, non_blocking=True) - shift) / scale
            features.append(pool(backbone(images)).float().cpu())
            labels.append(truth)
    for module, training in was_training.items():
        module.training = training
    if not features:
        raise unreadable
    joined = torch.cat(features)
    if not joined.isfinite().all():
        raise UserValueError(
            f"features must be finite, but {int((~joined.isfinite()).any(dim=1).sum())} of "
            f"{len(joined)} images gave NaN or infinity; check the weights."
        )
    return joined, torch.cat(labels)


def check_loading(batch_size: int, num_workers: int) -> None:
    """Refuse numbers of a loader that make no sense, before any work is done.

    Raises:
        ValueError: ``batch_size`` below 1, or ``num_workers`` below 0 or above 1,024.
    """
    if batch_size < 1:
        raise UserValueError(f"batch_size must be at least 1, but got {batch_size}.")
    if not 0 <= num_workers <= MOST_PROCESSES:
        raise UserValueError(
            f"num_workers must be from 0 to {MOST_PROCESSES}, but got {num_workers}."
        )


def _load(dataset: Dataset, leave_out_unreadable: bool, indices: list[int]) -> Any:
    """Return a batch, or its ValueError: raised in a worker, a loader would bury its message."""
    items = []
    for index in indices:
        try:
            items.append(dataset[index])
        except ValueError as error:
            fault = error
            if not (leave_out_unreadable and isinstance(error, ImageReadError)):
                return error
    return default_collate(items) if items else fault
