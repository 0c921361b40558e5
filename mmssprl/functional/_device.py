"""Photometric augmentation on a device, without waiting for it to read a parameter.

There are two ways. By masks: every operation runs on all samples, and masks select the results.
This can be compiled, and parameters may be on the device. Sorted: parameters on the CPU select the
samples of each operation. For the jitter, samples are sorted by the place of the hue shift among
the blends. The blur is PIL's: a box of fractional width 2 r + 1 passes three times over a line.

Legend: images and x (N, 3, H, W), x float32 in [0, 1], RGB.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from .photometric_params import (
    CONTRAST,
    GRAY_WEIGHTS,
    HUE,
    SATURATION,
    SOLARIZE_FROM,
    PhotometricParams,
)

_NUM_PASSES = 3
_NOT_JITTERED = 4  # sorts after the four places of the hue shift
_Number = TypeVar("_Number", float, np.ndarray, Tensor)


def augment_by_masks(
    images: Tensor, params: PhotometricParams, scale: Sequence[float], shift: Sequence[float]
) -> Tensor:
    """Augment and apply ``* scale + shift``: (N, 3, H, W) float32, in memory (N, H, W, 3)."""
    flip, jittered, grayscale, blurred, solarize = params
    x = images.float() / 255 if images.dtype == torch.uint8 else images

    if flip is not None:
        x = torch.where(flip[:, None, None, None], x.flip(-1), x)
    if jittered is not None:
        x = jitter(x, *jittered)
    if grayscale is not None:
        x = torch.where(grayscale[:, None, None, None], luma(x), x)
    if blurred is not None:
        x = torch.where((blurred.sigma > 0)[:, None, None, None], blur(x, *blurred), x)
    if solarize is not None:
        x = torch.where(solarize[:, None, None, None], solarized(x), x)

    return normalise(x, scale, shift).permute(0, 3, 1, 2)


@functools.cache
def compiled_augment() -> Callable[..., Tensor]:
    """Return `augment_by_masks`, compiled once per shape."""
    return torch.compile(augment_by_masks, dynamic=False)


def plan(params: PhotometricParams, num: int) -> tuple[list[Tensor], Tensor, list[int]]:
    """Plan `augment_sorted` with parameters on the CPU.

    Returns the sorted order of the samples, its inverse, and the sorted positions of the samples to
    flip, to gray, to blur and to solarize; numbers (N, 13), sorted: 9 of `blend_weights`, 3 of
    `hue_offsets`, sigma; and the ends for `jitter_in_place`.
    """
    order = torch.arange(num)
    ends = [0] * _NOT_JITTERED
    numbers = torch.zeros(num, 13)
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
    return parts, numbers[order], ends


def augment_sorted(
    images: Tensor, params: PhotometricParams, scale: Sequence[float], shift: Sequence[float]
) -> Tensor:
    """Augment as `augment_by_masks` does, with parameters on the CPU."""
    parts, numbers, ends = plan(params, len(images))
    # Two CPU tensors, so only two copies to the device.
    numbers, indices = (sent(each, images.device) for each in (numbers, torch.cat(parts)))
    order, back, flipped, gray, blurred, solar = indices.split([len(part) for part in parts])

    x = images.index_select(0, order)
    _change(x, flipped, lambda some: some.flip(-1))  # values may still be one byte each
    x = x / 255 if x.dtype == torch.uint8 else x
    jitter_in_place(x, numbers[:, :9], numbers[:, 9:12], ends)
    _change(x, gray, lambda some: luma(some).expand(-1, 3, -1, -1))
    if params.blur is not None:
        max_sigma = params.blur.max_sigma
        sigma = numbers[:, 12]
        _change(x, blurred, lambda some: blur(some, sigma.index_select(0, blurred), max_sigma))
    _change(x, solar, solarized)
    return normalise(x, scale, shift).index_select(0, back).permute(0, 3, 1, 2)


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a small tensor to a device without blocking the host or the device."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def _change(x: Tensor, index: Tensor, change: Callable[[Tensor], Tensor]) -> None:
    """Apply ``change`` to the samples at ``index``, in place."""
    if len(index):
        x.index_copy_(0, index, change(x.index_select(0, index)))


def luma(x: Tensor) -> Tensor:
    """Return the grayscale (N, 1, H, W)."""
    red, green, blue = x.split(1, dim=1)
    gray = red * GRAY_WEIGHTS[0]
    return gray.add_(green, alpha=GRAY_WEIGHTS[1]).add_(blue, alpha=GRAY_WEIGHTS[2])


def solarized(x: Tensor) -> Tensor:
    """Invert values >= `SOLARIZE_FROM`."""
    return torch.where(x >= SOLARIZE_FROM, 1 - x, x)


def normalise(x: Tensor, scale: Sequence[float], shift: Sequence[float]) -> Tensor:
    """Return ``x * scale + shift`` per channel as (N, H, W, 3)."""
    channels = zip(x.unbind(1), scale, shift, strict=True)
    return torch.stack([x_ * times + plus for x_, times, plus in channels], dim=-1)


def jitter(x: Tensor, order: Tensor, factors: Tensor) -> Tensor:
    """Apply all blends before and after the hue shift, with factor 1 in the wrong place."""
    blends, hue_at = split_order(order)
    factor = factors.gather(1, blends)
    changed = x
    for before in (True, False):
        live = (hue_at[:, None] > torch.arange(3, device=order.device)) == before
        weights = blend_weights(blends, torch.where(live, factor, 1.0))
        for k in range(3):
            changed = _blend(changed, weights[:, k::3])
        if before:
            changed = _hue(changed, hue_offsets(factors[:, HUE]))
    return torch.where(is_jittered(factors)[:, None, None, None], changed, x)


def jitter_in_place(x: Tensor, weights: Tensor, offsets: Tensor, ends: Sequence[int]) -> None:
    """Jitter samples that are sorted by the number of blends before their hue shift.

    ``ends`` counts the samples with at most 0, 1, 2 and 3 such blends. Samples without a jitter
    come last.
    """
    num = ends[3]
    for k in range(3):
        later = x[ends[k] : num]
        _blend(later, weights[ends[k] : num, k::3], out=later)

    if num:
        _hue(x[:num], offsets[:num], out=x[:num])

    for k in range(3):
        earlier = x[: ends[k]]
        _blend(earlier, weights[: ends[k], k::3], out=earlier)


def split_order(order: Tensor) -> tuple[Tensor, Tensor]:
    """Return the blends (N, 3) in order, and their number before the hue shift (N,)."""
    is_hue = order == HUE
    position = torch.where(is_hue, 4, torch.arange(4, device=order.device))
    return order.gather(1, position.argsort(dim=1)[:, :3]), is_hue.int().argmax(dim=1)


def is_jittered(factors: Tensor) -> Tensor:
    """Return (N,) bool, True for samples with factors that are not the identity."""
    return (factors[:, :HUE] != 1).any(dim=1) | (factors[:, HUE] != 0)


def blend_weights(kinds: Tensor, factor: Tensor) -> Tensor:
    """Return (N, 9): the shares of own gray and of mean gray, and the factors, of three blends."""
    partners = [kinds == SATURATION, kinds == CONTRAST]  # brightness blends with black
    return torch.cat([partner.to(factor.dtype) for partner in partners] + [factor], dim=1)


def hue_offsets(turns: Tensor) -> Tensor:
    """Subtract the hues of R, G, B from shifts (N,) in turns: (N, 3) in sixths, in [-3, 3]."""
    own = torch.arange(0, 6, 2, dtype=turns.dtype, device=turns.device)
    return torch.remainder(6 * turns[:, None] - own + 3, 6) - 3


def _blend(x: Tensor, weights: Tensor, out: Tensor | None = None) -> Tensor:
    """Blend with black, the mean gray or the own gray. ``weights`` (N, 3): see `blend_weights`."""
    own, mean, factor = weights[..., None, None, None].unbind(1)
    gray = luma(x)
    partner = torch.addcmul(gray.mean(dim=(2, 3), keepdim=True) * mean, gray, own)
    return torch.lerp(partner, x, factor, out=out).clamp_(0, 1)


def _hue(x: Tensor, offsets: Tensor, out: Tensor | None = None) -> Tensor:
    """Shift the hue of HSV without converting to HSV. ``offsets``: see `hue_offsets`.

    Let h be the hue in sixths of a turn, lo and hi the smallest and largest channel, C = hi - lo.
    Then |h| = 1 + (G + B - R - lo) / C in [0, 3], with the sign of G - B. Each channel becomes
    lo + C * clamp(2 - d, 0, 1), where d is the distance on the circle between the shifted h and
    the channel's own hue (0, 2, 4). For an offset in [-3, 3], |h + offset| <= 6 and
    d = 3 - | |h + offset| - 3 |. All terms are multiplied by C: there is no division, and grays do
    not change.
    """
    red, green, blue = x.split(1, dim=1)
    low, high = x.aminmax(dim=1, keepdim=True)
    chroma = high - low
    excess = chroma - low
    hue = (excess + green).add_(blue).sub_(red).copysign_(green - blue)
    shifted = torch.addcmul(hue, chroma, offsets[:, :, None, None])
    shifted.abs_().sub_(chroma, alpha=3).abs_().sub_(excess)
    return torch.clamp(shifted, low, high, out=out)


def box_radius(sigma: _Number) -> _Number:
    """Return the radius r of the box with the variance ``sigma ** 2 / 3``."""
    variance = sigma**2 / _NUM_PASSES
    whole = ((12 * variance + 1) ** 0.5 - 1) // 2
    rest = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance)
    return whole + rest / (6 * (variance - (whole + 1) ** 2))


def _blur_matrix(size: int, sigma: Tensor, reach: int) -> Tensor:
    """Return matrices (N, size, size) that blur a line. Rows sum to 1; sigma 0 is the identity."""
    radius = box_radius(sigma)[:, None, None]
    line = torch.arange(-reach, size + reach, device=sigma.device)
    distance = (line[reach : reach + size, None] - line).abs()
    box = (radius + 1 - distance).clamp_(0, 1).div_(2 * radius + 1)
    # Weights beyond the ends of the line go to its first and last pixel.
    before, inside, behind = box.split([reach, size, reach], dim=2)
    inside[:, :, 0] += before.sum(dim=2)
    inside[:, :, -1] += behind.sum(dim=2)
    return inside.bmm(inside.bmm(inside))


def blur(x: Tensor, sigma: Tensor, max_sigma: float) -> Tensor:
    """Blur (N, C, H, W) float32 by ``sigma`` (N,) into a new tensor. 0 may change last bits."""
    num, channels, height, width = x.shape
    reach = math.ceil(box_radius(max_sigma))
    # Autocast would compute the matrix products in half precision.
    with torch.autocast(x.device.type, enabled=False):
        # Faster than shifting and adding, which passes over the image once per tap.
        columns = _blur_matrix(height, sigma, reach)
        rows = columns if width == height else _blur_matrix(width, sigma, reach)
        # (N, C, H, W) -> (N, C H, W). One matrix per sample for all rows, one for all columns.
        lines = x.reshape(num, channels * height, width).bmm(rows.transpose(1, 2))
        return torch.stack([columns.bmm(plane) for plane in lines.chunk(channels, dim=1)], dim=1)
