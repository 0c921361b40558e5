"""Parameters of the photometric operations, and functions that draw them.

Legend: N samples. Samples that an operation skips have the parameters of the identity.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from ..errors import UserValueError

GRAY_WEIGHTS = (0.2989, 0.587, 0.114)
"""Luma weights of R, G, B as in torchvision (ITU-R 601-2)."""

SOLARIZE_FROM = 0.5
"""Solarizing inverts values from here on: BYOL's threshold, level 128 of 255."""

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)

IDENTITY = (1.0, 1.0, 1.0, 0.0)

Probability = float | Sequence[float]
"""One number for all N samples, or several numbers for as many equal parts of N, in order."""


class ColorJitterParams(NamedTuple):
    """Parameters of N colour jitters, in the order BRIGHTNESS, CONTRAST, SATURATION, HUE."""

    order: Tensor  # (N, 4) int64: ``order[n, k]`` is the k-th operation
    factors: Tensor  # (N, 4) float32: three blend factors >= 0, a hue shift in [-0.5, 0.5] turns


class GaussianBlurParams(NamedTuple):
    """Parameters of N blurs."""

    sigma: Tensor  # (N,) float32, standard deviation in pixels; 0 for no blur
    max_sigma: float  # upper bound of ``sigma``, so that nobody reads it from its device


class PhotometricParams(NamedTuple):
    """Operations on N samples, in this order. Masks are (N,) bool; None skips an operation."""

    flip: Tensor | None = None
    jitter: ColorJitterParams | None = None
    grayscale: Tensor | None = None
    blur: GaussianBlurParams | None = None
    solarize: Tensor | None = None


def draw_mask(num: int, *, prob: Probability, generator: Generator) -> Tensor:
    """Draw N independent decisions (N,) bool, on the generator's device.

    ``prob`` is the probability of True. The random numbers used do not depend on it.
    """
    probs = prob if isinstance(prob, Sequence) else [prob]
    drawn = torch.rand(num, generator=generator, device=generator.device)
    if len(probs) == 1:
        return drawn < probs[0]
    # Compare with Python numbers: a tensor of them would need a copy to the device.
    parts = zip(drawn.tensor_split(len(probs)), probs, strict=True)
    return torch.cat([part < p for part, p in parts])


def draw_color_jitter(
    num: int,
    *,
    brightness: float,
    contrast: float,
    saturation: float,
    hue: float,
    prob: Probability,
    generator: Generator,
) -> ColorJitterParams:
    """Draw N parameter sets with the distributions of torchvision's ColorJitter.

    Brightness, contrast and saturation are strengths x >= 0 of factors that are uniform in
    [max(0, 1 - x), 1 + x]. Hue is a strength x in [0, 0.5] of a shift that is uniform in [-x, x]
    turns. ``prob`` is the probability that a sample is jittered. Raises ValueError for a number out
    of its range.
    """
    strengths = {"brightness": brightness, "contrast": contrast, "saturation": saturation}
    for name, strength in strengths.items():
        if not 0 <= strength < math.inf:
            raise UserValueError(f"{name} must be a strength >= 0, but got {strength}.")
    if not 0 <= hue <= 0.5:
        raise UserValueError(f"hue must be a strength in [0, 0.5] turns, but got {hue}.")
    bounds = [(max(0.0, 1 - x), 1 + x) for x in strengths.values()] + [(-hue, hue)]
    applied = draw_mask(num, prob=prob, generator=generator)
    order = torch.rand(num, 4, generator=generator, device=generator.device).argsort(dim=1)
    uniform = torch.rand(num, 4, generator=generator, device=generator.device)
    columns = [
        torch.where(applied, column * (high - low) + low, identity)
        for column, (low, high), identity in zip(uniform.unbind(1), bounds, IDENTITY, strict=True)
    ]
    return ColorJitterParams(order, torch.stack(columns, dim=1))


def draw_gaussian_blur(
    num: int, *, sigma: tuple[float, float], prob: Probability, generator: Generator
) -> GaussianBlurParams:
    """Draw N standard deviations, uniform in the range ``sigma`` in pixels.

    ``prob`` is the probability that a sample is blurred. Raises ValueError for a number out of its
    range.
    """
    if len(sigma) != 2 or not 0 <= sigma[0] <= sigma[1] < math.inf:
        raise UserValueError(f"sigma must be (low, high) with 0 <= low <= high, but got {sigma}.")
    low, high = sigma
    applied = draw_mask(num, prob=prob, generator=generator)
    drawn = torch.rand(num, generator=generator, device=generator.device) * (high - low) + low
    return GaussianBlurParams(torch.where(applied, drawn, 0.0), high)


def draw_photometric(
    num: int,
    *,
    flip: Mapping[str, Any],
    jitter: Mapping[str, Any],
    grayscale: Mapping[str, Any],
    blur: Mapping[str, Any],
    solarize: Mapping[str, Any] | None = None,
    generator: Generator,
) -> PhotometricParams:
    """Draw all parameters of N samples, in the order in which they are applied.

    Each argument is a dict of arguments of the function that draws it: `draw_color_jitter`,
    `draw_gaussian_blur`, or `draw_mask` for the others. If ``solarize`` is None, it is not drawn.
    """
    return PhotometricParams(
        flip=draw_mask(num, **flip, generator=generator),
        jitter=draw_color_jitter(num, **jitter, generator=generator),
        grayscale=draw_mask(num, **grayscale, generator=generator),
        blur=draw_gaussian_blur(num, **blur, generator=generator),
        solarize=None if solarize is None else draw_mask(num, **solarize, generator=generator),
    )
