"""Colour operations with torchvision's meaning, one parameter set per sample, no value read.

Legend: x (N, 3, H, W) float32 in [0, 1], RGB. Functions return a new tensor.
"""

import torch
from torch import Tensor

GRAY_WEIGHTS = (0.2989, 0.587, 0.114)
"""Luma weights of R, G, B as torchvision has them (ITU-R 601-2)."""

SOLARIZE_FROM = 0.5
"""The darkest value that solarizing inverts: BYOL's threshold, 128 of 255 levels."""

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)


def luma(x: Tensor) -> Tensor:
    """Return the grayscale (N, 1, H, W)."""
    red, green, blue = x.split(1, dim=1)
    gray = red * GRAY_WEIGHTS[0]
    return gray.add_(green, alpha=GRAY_WEIGHTS[1]).add_(blue, alpha=GRAY_WEIGHTS[2])


def jitter(x: Tensor, order: Tensor, factors: Tensor) -> Tensor:
    """Apply jitters as ``ColorJitterParams`` has them.

    All blends are tried before and after the hue shift, with the factor 1 in the wrong place.
    """
    # The three blends in their order, without the hue shift between them.
    position = torch.where(order == HUE, 4, torch.arange(4, device=order.device))
    blends = order.gather(1, position.argsort(dim=1)[:, :3])
    factor = factors.gather(1, blends)
    hue_at = (order == HUE).int().argmax(dim=1)
    changed = x
    for before in (True, False):
        for k in range(3):
            live = (hue_at > k) == before
            changed = _blend(changed, blends[:, k], torch.where(live, factor[:, k], 1.0))
        if before:
            changed = _hue(changed, factors[:, HUE])
    jittered = (factors[:, :HUE] != 1).any(dim=1) | (factors[:, HUE] != 0)
    return torch.where(_per_pixel(jittered), changed, x)


def _blend(x: Tensor, kind: Tensor, factor: Tensor) -> Tensor:
    """Blend with black, the mean gray or the own gray: ``kind`` is the operation's constant."""
    gray = luma(x)
    mean = gray.mean(dim=(2, 3), keepdim=True)
    partner = gray * _per_pixel(kind == SATURATION) + mean * _per_pixel(kind == CONTRAST)
    return torch.lerp(partner, x, _per_pixel(factor)).clamp_(0, 1)


def _hue(x: Tensor, turns: Tensor) -> Tensor:
    """Shift the hue of HSV without going there.

    With h the hue in sixths of a turn, lo and hi the smallest and largest channel and C = hi - lo,
    |h| = 1 + (G + B - R - lo) / C in [0, 3], with the sign of G - B; and each channel is
    lo + C * clamp(2 - d, 0, 1), d the distance on the circle between the shifted h and the
    channel's own hue (0, 2, 4). Everything is kept multiplied by C, so nothing is divided and grays
    stay as they are. The offset is the shift minus the own hue, wrapped to [-3, 3]: then
    |h + offset| <= 6 and d = 3 - | |h + offset| - 3 |.
    """
    own = torch.arange(0, 6, 2, dtype=turns.dtype, device=turns.device)
    offset = (torch.remainder(6 * turns[:, None] - own + 3, 6) - 3)[:, :, None, None]
    red, green, blue = x.split(1, dim=1)
    low, high = x.amin(dim=1, keepdim=True), x.amax(dim=1, keepdim=True)
    chroma = high - low
    excess = chroma - low
    hue = (excess + green).add_(blue).sub_(red).copysign_(green - blue)
    shifted = torch.addcmul(hue, chroma, offset)
    shifted.abs_().sub_(chroma, alpha=3).abs_().sub_(excess)
    return torch.clamp(shifted, low, high)


def _per_pixel(values: Tensor) -> Tensor:
    return values[:, None, None, None]
