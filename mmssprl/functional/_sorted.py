"""Photometric augmentation on a device by parameters that lie on the CPU.

So each operation is done to the samples that need it, and nothing is read from the device. While
their colours change, samples are sorted by the place of their hue shift among the blends.

Legend: images (N, 3, H, W).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ._blur import blur
from ._color import (
    HUE,
    blend_weights,
    hue_offsets,
    is_jittered,
    jitter_in_place,
    luma,
    normalise,
    solarized,
    split_order,
)
from ._photometric_params import PhotometricParams

_NOT_JITTERED = 4  # comes after the four places of the hue shift


class SortedPlan(NamedTuple):
    """What to do to which of N samples; tensors on the CPU, sent to the device in two copies."""

    # int64, six parts one after the other: the samples in the order in which they are worked on;
    # its inverse; the places in it of the samples to flip, to gray, to blur and to solarize.
    indices: Tensor
    sizes: list[int]  # lengths of the six parts
    numbers: Tensor  # (N, 13) in that order: of `blend_weights` and `hue_offsets`, and sigma
    ends: list[int]  # see `jitter_in_place`


def plan(params: PhotometricParams, num: int) -> SortedPlan:
    """Return the plan for parameters that lie on the CPU."""
    order, ends, numbers = torch.arange(num), [0] * _NOT_JITTERED, torch.zeros(num, 13)
    if params.jitter is not None:
        blends, hue_at = split_order(params.jitter.order)
        factors = params.jitter.factors
        place = torch.where(is_jittered(factors), hue_at, _NOT_JITTERED)
        order = place.argsort(stable=True)
        counts = np.bincount(place.numpy(), minlength=_NOT_JITTERED)
        ends = counts[:_NOT_JITTERED].cumsum().tolist()
        numbers[:, :9] = blend_weights(blends, factors.gather(1, blends))
        numbers[:, 9:12] = hue_offsets(factors[:, HUE])
    is_blurred = None
    if params.blur is not None:
        numbers[:, 12] = params.blur.sigma
        is_blurred = params.blur.sigma > 0
    parts = [order, order.argsort()]
    for mask in (params.flip, params.grayscale, is_blurred, params.solarize):
        chosen = np.empty(0, np.int64) if mask is None else np.flatnonzero(mask[order].numpy())
        parts.append(torch.from_numpy(chosen))
    return SortedPlan(torch.cat(parts), [len(part) for part in parts], numbers[order], ends)


def augment(
    images: Tensor, params: PhotometricParams, scale: Sequence[float], shift: Sequence[float]
) -> Tensor:
    """Flip, jitter, gray, blur, solarize, and ``* scale + shift`` uint8 or float32 in [0, 1].

    Parameters lie on the CPU. Returns (N, 3, H, W) float32, in memory (N, H, W, 3).
    """
    planned = plan(params, len(images))
    numbers = sent(planned.numbers, images.device)
    indices = sent(planned.indices, images.device)
    order, back, flipped, gray, blurred, solar = indices.split(planned.sizes)
    x = images.index_select(0, order)
    _change(x, flipped, lambda some: some.flip(-1))  # while a value is still one byte
    x = x / 255 if x.dtype == torch.uint8 else x
    jitter_in_place(x, numbers[:, :9], numbers[:, 9:12], planned.ends)
    _change(x, gray, lambda some: luma(some).expand(-1, 3, -1, -1))
    if params.blur is not None:
        max_sigma, sigma = params.blur.max_sigma, numbers[:, 12]
        # Autocast would do the matrix products in half precision.
        with torch.autocast(x.device.type, enabled=False):
            _change(x, blurred, lambda some: blur(some, sigma.index_select(0, blurred), max_sigma))
    _change(x, solar, solarized)
    return normalise(x, scale, shift).index_select(0, back).permute(0, 3, 1, 2)


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a small tensor to a device; neither the host nor the device waits for it."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def _change(x: Tensor, index: Tensor, change: Callable[[Tensor], Tensor]) -> None:
    """Change some of the samples in place."""
    if len(index):
        x.index_copy_(0, index, change(x.index_select(0, index)))
