"""Photometric augmentation on a device, where reading a parameter would wait for it.

By masks: all samples are worked on, and the identity's parameters choose. That can be compiled, and
parameters may lie on the device. Sorted: parameters on the CPU tell which samples an operation is
done to; while colours change, samples are sorted by the place of their hue shift among the blends.

The blur is PIL's: a box of fractional width 2 r + 1 passes three times over a line, with the edge
pixels repeated each time. Colours change as torchvision changes them.

Legend: images and x (N, 3, H, W), x float32 in [0, 1], RGB.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

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
_NOT_JITTERED = 4  # comes after the four places of the hue shift
_Number = TypeVar("_Number", float, np.ndarray, Tensor)


def augment_by_masks(
    images: Tensor, params: PhotometricParams, scale: Sequence[float], shift: Sequence[float]
) -> Tensor:
    """Change, and ``* scale + shift``: (N, 3, H, W) float32, in memory (N, H, W, 3)."""
    x = change(images.float() / 255 if images.dtype == torch.uint8 else images, params)
    return normalise(x, scale, shift).permute(0, 3, 1, 2)


@functools.cache
def compiled_augment() -> Callable[..., Tensor]:
    """`augment_by_masks` through torch.compile, which compiles once per shape."""
    return torch.compile(augment_by_masks, dynamic=False)


def change(x: Tensor, params: PhotometricParams) -> Tensor:
    """Do all but the normalisation to (N, 3, H, W) float32 in [0, 1]; returns the same."""
    if params.flip is not None:
        x = torch.where(params.flip[:, None, None, None], x.flip(-1), x)
    if params.jitter is not None:
        x = jitter(x, *params.jitter)
    if params.grayscale is not None:
        x = torch.where(params.grayscale[:, None, None, None], luma(x), x)
    if params.blur is not None:
        # Autocast would do the matrix products in half precision.
        with torch.autocast(x.device.type, enabled=False):
            blurred = blur(x, *params.blur)
        x = torch.where((params.blur.sigma > 0)[:, None, None, None], blurred, x)
    if params.solarize is not None:
        x = torch.where(params.solarize[:, None, None, None], solarized(x), x)
    return x


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


def augment_sorted(
    images: Tensor, params: PhotometricParams, scale: Sequence[float], shift: Sequence[float]
) -> Tensor:
    """As `augment_by_masks`, by parameters that lie on the CPU."""
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


def luma(x: Tensor) -> Tensor:
    """Return the grayscale (N, 1, H, W)."""
    red, green, blue = x.split(1, dim=1)
    gray = red * GRAY_WEIGHTS[0]
    return gray.add_(green, alpha=GRAY_WEIGHTS[1]).add_(blue, alpha=GRAY_WEIGHTS[2])


def solarized(x: Tensor) -> Tensor:
    """Invert values of `SOLARIZE_FROM` and above."""
    return torch.where(x >= SOLARIZE_FROM, 1 - x, x)


def normalise(x: Tensor, scale: Sequence[float], shift: Sequence[float]) -> Tensor:
    """Return ``x * scale + shift`` per channel as (N, H, W, 3)."""
    channels = zip(x.unbind(1), scale, shift, strict=True)
    return torch.stack([x_ * times + plus for x_, times, plus in channels], dim=-1)


def jitter(x: Tensor, order: Tensor, factors: Tensor) -> Tensor:
    """Try all blends before and after the hue shift, with the factor 1 in the wrong place."""
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
    """Apply jitters to samples that are sorted by their number of blends before the hue shift.

    ``ends`` says how many have at most 0, 1, 2 and 3 of them; those without a jitter come last.
    """
    num = ends[3]
    for k in range(3):
        _blend_in_place(x[ends[k] : num], weights[ends[k] : num, k::3])
    if num:
        _hue(x[:num], offsets[:num], out=x[:num])
    for k in range(3):
        _blend_in_place(x[: ends[k]], weights[: ends[k], k::3])


def _blend_in_place(x: Tensor, weights: Tensor) -> None:
    if len(x):
        _blend(x, weights, out=x)


def split_order(order: Tensor) -> tuple[Tensor, Tensor]:
    """Return the blends (N, 3) in their order, and (N,) how many of them precede the hue shift."""
    is_hue = order == HUE
    position = torch.where(is_hue, 4, torch.arange(4, device=order.device))
    return order.gather(1, position.argsort(dim=1)[:, :3]), is_hue.int().argmax(dim=1)


def is_jittered(factors: Tensor) -> Tensor:
    """Return (N,) bool, which samples have factors other than the identity's."""
    return (factors[:, :HUE] != 1).any(dim=1) | (factors[:, HUE] != 0)


def blend_weights(kinds: Tensor, factor: Tensor) -> Tensor:
    """Return (N, 9): of three blends the shares of own and mean gray, and the factor."""
    partners = [kinds == SATURATION, kinds == CONTRAST]  # brightness blends with black
    return torch.cat([partner.to(factor.dtype) for partner in partners] + [factor], dim=1)


def hue_offsets(turns: Tensor) -> Tensor:
    """Return (N, 3): shifts (N,) in turns minus the channels' own hues, in sixths, in [-3, 3]."""
    own = torch.arange(0, 6, 2, dtype=turns.dtype, device=turns.device)
    return torch.remainder(6 * turns[:, None] - own + 3, 6) - 3


def _blend(x: Tensor, weights: Tensor, out: Tensor | None = None) -> Tensor:
    """Blend with black, the mean gray or the own gray; ``weights`` (N, 3) as `blend_weights`."""
    own, mean, factor = weights[..., None, None, None].unbind(1)
    gray = luma(x)
    partner = torch.addcmul(gray.mean(dim=(2, 3), keepdim=True) * mean, gray, own)
    return torch.lerp(partner, x, factor, out=out).clamp_(0, 1)


def _hue(x: Tensor, offsets: Tensor, out: Tensor | None = None) -> Tensor:
    """Shift the hue of HSV without going there; ``offsets`` of `hue_offsets`.

    With h the hue in sixths of a turn, lo and hi the smallest and largest channel and C = hi - lo,
    |h| = 1 + (G + B - R - lo) / C in [0, 3], with the sign of G - B; and each channel is
    lo + C * clamp(2 - d, 0, 1), d the distance on the circle between the shifted h and the
    channel's own hue (0, 2, 4). Everything is kept multiplied by C, so nothing is divided and grays
    stay as they are. With an offset in [-3, 3], |h + offset| <= 6 and d = 3 - | |h + offset| - 3 |.
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
    """Radius r of the box whose variance is a third of ``sigma`` ** 2."""
    variance = sigma**2 / _NUM_PASSES
    whole = ((12 * variance + 1) ** 0.5 - 1) // 2
    rest = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance)
    return whole + rest / (6 * (variance - (whole + 1) ** 2))


def _blur_matrix(size: int, sigma: Tensor, reach: int) -> Tensor:
    """Matrices (N, size, size) that blur a line; rows sum to 1, sigma 0 is the identity."""
    radius = box_radius(sigma)[:, None, None]
    line = torch.arange(-reach, size + reach, device=sigma.device)
    distance = (line[reach : reach + size, None] - line).abs()
    box = (radius + 1 - distance).clamp_(0, 1).div_(2 * radius + 1)
    # What reaches beyond the line falls on its first and last pixel.
    before, inside, behind = box.split([reach, size, reach], dim=2)
    inside[:, :, 0] += before.sum(dim=2)
    inside[:, :, -1] += behind.sum(dim=2)
    return inside.bmm(inside.bmm(inside))


def blur(x: Tensor, sigma: Tensor, max_sigma: float) -> Tensor:
    """Blur (N, C, H, W) float32 by ``sigma`` (N,); returns a new tensor. 0 changes last bits."""
    num, channels, height, width = x.shape
    reach = math.ceil(box_radius(max_sigma))
    # Dense products beat shifting and adding, which takes a pass over the image per tap.
    columns = _blur_matrix(height, sigma, reach)
    rows = columns if width == height else _blur_matrix(width, sigma, reach)
    # (N, C, H, W) -> (N, C H, W): one matrix for all rows of a sample, then one for its columns.
    lines = x.reshape(num, channels * height, width).bmm(rows.transpose(1, 2))
    return torch.stack([columns.bmm(plane) for plane in lines.chunk(channels, dim=1)], dim=1)
