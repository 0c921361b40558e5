"""Colour operations in place, torchvision's meaning, one parameter set per sample.

Legend: x (n, 3, L) float32 in [0, 1], contiguous, L pixels, changed in place.
"""

from typing import NamedTuple

import torch
from torch import Tensor

GRAY_WEIGHTS = (0.2989, 0.587, 0.114)
"""Luma weights of R, G, B as torchvision has them (ITU-R 601-2)."""

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)


class JitterSteps(NamedTuple):
    """N colour jitters as three blends with a hue shift before, between or after them.

    Blend k is ``x = clamp(mix[:, k] @ x + lift[:, k] @ x.sum(2), 0, 1)``.

    Attributes:
        hue_at: (N,) int64 in [0, 3], the number of blends before the hue shift.
        mix: (N, 3, 3, 3), second dimension k; the identity where nothing changes.
        lift: (N, 3, 3, 3), as ``mix``; only contrast's is not zero.
        offset: (N, 3, 1) in [-3, 3], for `_hue_`.
    """

    hue_at: Tensor
    mix: Tensor
    lift: Tensor
    offset: Tensor


def grayscale_(images: Tensor) -> None:
    """Set the channels of (n, 3, H, W) float32 to the grayscale."""
    red, green, blue = images.split(1, dim=1)
    gray = red * GRAY_WEIGHTS[0]
    gray.add_(green, alpha=GRAY_WEIGHTS[1]).add_(blue, alpha=GRAY_WEIGHTS[2])
    images.copy_(gray.expand_as(images))


def jitter_steps(order: Tensor, factors: Tensor, num_pixels: int) -> JitterSteps:
    """Prepare jitters for images of ``num_pixels``; arguments as in ``ColorJitterParams``."""
    position = torch.where(order == HUE, 4, torch.arange(4, device=order.device))
    blends = order.gather(1, position.argsort(dim=1)[:, :3])
    factor = factors.gather(1, blends)
    # Every pixel gets (1 - factor) of the grayscale: its own, or the mean one.
    row = torch.stack([(1 - factor) * weight for weight in GRAY_WEIGHTS], dim=2)
    gray = row[:, :, None, :].expand(-1, -1, 3, -1)
    kind = blends[:, :, None, None]
    same = torch.eye(3, device=order.device) * factor[:, :, None, None]
    own = torch.arange(0, 6, 2, dtype=factors.dtype, device=order.device)
    return JitterSteps(
        hue_at=(order == HUE).int().argmax(dim=1),
        mix=same + gray * (kind == SATURATION),
        lift=gray * (kind == CONTRAST) / num_pixels,
        offset=(torch.remainder(6 * factors[:, HUE, None] - own + 3, 6) - 3).unsqueeze(2),
    )


def jitter_run_(images: Tensor, *steps: Tensor) -> None:
    """Jitter (n, 3, H, W) samples that share ``hue_at``, on the CPU."""
    x = images.flatten(2)
    hue_at, mix, lift, offset = steps
    num_before = int(hue_at[0])
    for k in range(num_before):
        _blend_(x, mix[:, k], lift[:, k])
    _hue_(x, offset)
    for k in range(num_before, 3):
        _blend_(x, mix[:, k], lift[:, k])


def jitter_masked_(images: Tensor, *steps: Tensor) -> None:
    """Jitter (n, 3, H, W) samples without reading a value.

    All blends are tried before and after the hue shift, with the identity in the wrong place.
    """
    x = images.flatten(2)
    hue_at, mix, lift, offset = steps
    same = torch.eye(3, device=x.device)
    for before in (True, False):
        for k in range(3):
            live = ((hue_at > k) == before)[:, None, None]
            _blend_(x, torch.where(live, mix[:, k], same), lift[:, k] * live)
        if before:
            _hue_(x, offset)


def _blend_(x: Tensor, mix: Tensor, lift: Tensor) -> None:
    lifted = torch.bmm(lift, x.sum(dim=2, keepdim=True))
    torch.clamp(torch.baddbmm(lifted, mix, x), 0, 1, out=x)


def _hue_(x: Tensor, offset: Tensor) -> None:
    """Shift the hue of HSV without going there.

    With h the hue in sixths of a turn, lo and hi the smallest and largest channel and C = hi - lo,
    |h| = 1 + (G + B - R - lo) / C in [0, 3], with the sign of G - B; and each channel is
    lo + C * clamp(2 - d, 0, 1), d the distance on the circle between the shifted h and the
    channel's own hue (0, 2, 4). Everything is kept multiplied by C, so nothing is divided and grays
    stay as they are. ``offset`` is the shift minus the own hue, wrapped to [-3, 3]: then
    |h + offset| <= 6 and d = 3 - | |h + offset| - 3 |.
    """
    red, green, blue = x.split(1, dim=1)
    low, high = x.amin(dim=1, keepdim=True), x.amax(dim=1, keepdim=True)
    chroma = high - low
    excess = chroma - low
    hue = (excess + green).add_(blue).sub_(red).copysign_(green - blue)
    torch.addcmul(hue, chroma, offset, out=x)
    x.abs_().sub_(chroma, alpha=3).abs_().sub_(excess)
    torch.clamp(x, low, high, out=x)
