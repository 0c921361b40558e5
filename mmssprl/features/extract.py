"""Frozen features of images, a batch at a time: one decode per image, whatever is cut from it.

Legend: B readable images of a batch, R crops of each, C features, M crops of one scale, N images
and K classes of a split.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from ..console.progress import watch
from ..datasets.image_reading import ImageReadError, read_image
from ..errors import UserValueError
from ..system.environment import MOST_PROCESSES
from .crops import Crops
from .frozen_backbone import FrozenBackbone
from .probe_data import LabelledSplit


class Batch(NamedTuple):
    """The features of some images.

    Attributes:
        stop: Images so far, with those that are unreadable.
        indices: Of the B readable ones.
        features: float32 (B, R, C) on the CPU, all finite.
        boxes: What was seen, in pixels of the image, float32 (B, R, 4), see ``Crops.boxes``.
        unreadable: Index and reason of what has no features.
    """

    stop: int
    indices: list[int]
    features: Tensor
    boxes: np.ndarray
    unreadable: list[tuple[int, str]]


def extract(
    model: FrozenBackbone,
    read: Callable[[int], Tensor],
    indices: range,
    crops: Crops,
    *,
    batch_size: int = 64,
    num_workers: int = 0,
    device: torch.device,
    progress: bool = True,
) -> Iterator[Batch]:
    """Yield the features of one batch after the other: eval mode, no gradient, average pool.

    Args:
        model: It is moved to ``device``; which of its modules train is left as it was.
        read: Returns an image, uint8 RGB (3, H, W), or raises ``ImageReadError``.
        indices: Of the images.
        crops: What is cut from each.
        batch_size: Images per batch; the features do not depend on it.
        num_workers: Processes that read images; 0 reads in this one.
        device: Where the backbone runs.
        progress: Whether to draw a progress bar, if there is a terminal.

    Raises:
        ValueError: Features that are not finite.
    """
    loader: DataLoader = DataLoader(
        indices,  # type: ignore[arg-type]
        batch_size,
        num_workers=num_workers,
        collate_fn=partial(_load, read, crops),
    )
    model.to(device)
    training = [module for module in model.modules() if module.training]
    model.eval()
    # As many pixels at a time as a batch of whole images has.
    most_pixels = batch_size * crops.image_px**2
    try:
        for good, cut, boxes, unreadable in watch(loader, "features", shown=progress):
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
    finally:
        for module in training:
            module.training = True


def extract_split(
    model: FrozenBackbone,
    split: LabelledSplit,
    *,
    log: Callable[[str], object] = lambda line: None,
    **loading: Any,
) -> tuple[Tensor, Tensor]:
    """Return features (N, C) and labels (N, K) of a split's images, those of their centres.

    Unreadable images are left out, and told.

    Args:
        model: As for ``extract``.
        split: Image files and their labels.
        log: Receives a line about unreadable images.
        loading: ``batch_size``, ``num_workers``, ``device`` and ``progress`` of ``extract``.

    Raises:
        OSError, ValueError: As ``extract``, or no image that is readable.
    """
    crops, everything = Crops(model.image_px), range(len(split.paths))
    batches = list(extract(model, partial(_read, split.paths), everything, crops, **loading))
    good = [index for batch in batches for index in batch.indices]
    bad = [(split.paths[index], why) for batch in batches for index, why in batch.unreadable]
    require_readable(len(good), bad)
    if bad:
        log(
            f"{len(bad):,} images of {split.name} cannot be read and are left out "
            f"(first {bad[0][0]}: {bad[0][1]})"
        )
    features = [batch.features[:, 0] for batch in batches if batch.indices]
    return torch.cat(features), split.labels[good]


def require_readable(num_readable: int, unreadable: Sequence[tuple[str, str]]) -> None:
    """Refuse images of which none can be read.

    Args:
        num_readable: Images that can be.
        unreadable: Name and reason of the others.

    Raises:
        ValueError: There is no image, or no readable one.
    """
    if not num_readable:
        first = "".join(f" (first {name}: {why})" for name, why in unreadable[:1])
        raise UserValueError(
            f"at least one image must be readable, but none of {len(unreadable)} is{first}; "
            "replace or remove them."
        )


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


def choose_device(name: str) -> torch.device:
    """Return a device by name; 'auto' is a GPU if there is one.

    Raises:
        ValueError: This machine has no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise UserValueError(
            f"device must be one that this machine has, but got {name!r} "
            f"({str(error).splitlines()[0]}); use 'auto' or 'cpu'."
        ) from error


def _read(paths: Sequence[str], index: int) -> Tensor:
    return read_image(paths[index])


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
def _run(model: FrozenBackbone, crops: Tensor, most_pixels: int, device: torch.device) -> Tensor:
    """Return features (B M, C) on the CPU of uint8 (B M, 3, px, px)."""
    parts = [
        model(model.normalise(part.to(device, non_blocking=True))).float().cpu()
        for part in crops.split(max(1, most_pixels // crops.shape[-1] ** 2))
    ]
    return torch.cat(parts)
