"""Colour operations with torchvision's meaning, one parameter set per sample, no value read.

Legend: x (N, 3, H, W) float32 in [0, 1], RGB. Functions return a new tensor, or ``out``, which may
be x itself.
"""

from collections.abc import Sequence

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


def solarized(x: Tensor) -> Tensor:
    """Invert values of `SOLARIZE_FROM` and above."""
    return torch.where(x >= SOLARIZE_FROM, 1 - x, x)


def normalise(x: Tensor, scale: Sequence[float], shift: Sequence[float]) -> Tensor:
    """Return ``x * scale + shift`` per channel as (N, H, W, 3)."""
    channels = zip(x.unbind(1), scale, shift, strict=True)
    return torch.stack([x_ * times + plus for x_, times, plus in channels], dim=-1)


def jitter(x: Tensor, order: Tensor, factors: Tensor) -> Tensor:
    """Apply jitters as ``ColorJitterParams`` has them.

    All blends are tried before and after the hue shift, with the factor 1 in the wrong place.
    """
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
    return torch.where(_per_pixel(is_jittered(factors)), changed, x)


def jitter_in_place(x: Tensor, weights: Tensor, offsets: Tensor, ends: Sequence[int]) -> None:
    """Apply jitters to samples that are sorted by their number of blends before the hue shift.

    So those that still have a blend to do before it, or after it, lie side by side. ``ends`` says
    how many have at most 0, 1, 2 and 3 blends before the shift; those that are not jittered at all
    come last. ``weights`` (N, 9) are of `blend_weights`, ``offsets`` (N, 3) of `hue_offsets`.
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
    """Return (N, 9): of three blends the share of the own gray, of the mean gray, and the factor.

    ``kinds`` (N, 3) says what each blend is, as the constants above; ``factor`` is (N, 3).
    """
    partners = [kinds == SATURATION, kinds == CONTRAST]  # brightness blends with black
    return torch.cat([partner.to(factor.dtype) for partner in partners] + [factor], dim=1)


def hue_offsets(turns: Tensor) -> Tensor:
    """Return (N, 3): shifts (N,) in turns minus the channels' own hues, in sixths, in [-3, 3]."""
    own = torch.arange(0, 6, 2, dtype=turns.dtype, device=turns.device)
    return torch.remainder(6 * turns[:, None] - own + 3, 6) - 3


def _blend(x: Tensor, weights: Tensor, out: Tensor | None = None) -> Tensor:
    """Blend with black, the mean gray or the own gray; ``weights`` (N, 3) as `blend_weights`."""
    own, mean, factor = (_per_pixel(column) for column in weights.unbind(1))
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


def _per_pixel(values: Tensor) -> Tensor:
    return values[:, None, None, None]
