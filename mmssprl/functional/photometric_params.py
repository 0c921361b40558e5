"""Parameters of the photometric operations, and how they are drawn.

Legend: N samples. A sample that the apply-probability leaves out carries the identity's parameters.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from ..errors import UserValueError

GRAY_WEIGHTS = (0.2989, 0.587, 0.114)
"""Luma weights of R, G, B as torchvision has them (ITU-R 601-2)."""

SOLARIZE_FROM = 0.5
"""The darkest value that solarizing inverts: BYOL's threshold, 128 of 255 levels."""

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)

IDENTITY = (1.0, 1.0, 1.0, 0.0)

Probability = float | Sequence[float]
"""One number for all N samples, or one for each of as many equal parts of N, in order."""


class ColorJitterParams(NamedTuple):
    """Parameters of N colour jitters, in the order BRIGHTNESS, CONTRAST, SATURATION, HUE."""

    order: Tensor  # (N, 4) int64: ``order[n, k]`` is the operation applied as k-th
    factors: Tensor  # (N, 4) float32: three blend factors >= 0, a hue shift in [-0.5, 0.5] turns


class GaussianBlurParams(NamedTuple):
    """Parameters of N blurs."""

    sigma: Tensor  # (N,) float32, standard deviation in pixels; 0 changes nothing
    max_sigma: float  # upper bound of ``sigma``, known without reading it from its device


class PhotometricParams(NamedTuple):
    """What is done to N samples, in this order; masks are (N,) bool, None leaves a step out."""

    flip: Tensor | None = None
    jitter: ColorJitterParams | None = None
    grayscale: Tensor | None = None
    blur: GaussianBlurParams | None = None
    solarize: Tensor | None = None


def draw_mask(num: int, *, prob: Probability, generator: Generator) -> Tensor:
    """Draw N independent decisions (N,) bool, on the generator's device.

    What is drawn does not depend on ``prob``, the probability of True; ValueError for another
    number, or several that do not divide N.
    """
    probs = prob if isinstance(prob, Sequence) else [prob]
    if not all(0 <= p <= 1 for p in probs):
        raise UserValueError(f"prob must be a probability in [0, 1], but got {prob}.")
    if not probs or num % len(probs):
        raise UserValueError(
            f"prob must be one number, or one for each of as many equal parts of the {num} "
            f"samples, but got {prob}; give one number."
        )
    drawn = torch.rand(num, generator=generator, device=generator.device)
    if len(probs) == 1:
        return drawn < probs[0]
    # Numbers are compared, for a tensor of them would have to be copied to the device first.
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

    Brightness, contrast and saturation are strengths x >= 0 of factors uniform in
    [max(0, 1 - x), 1 + x], hue is one in [0, 0.5] of a shift uniform in [-x, x] turns. A sample is
    jittered at all with probability ``prob``. ValueError for a number out of its range.
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
    """Draw N standard deviations, uniform between the two of ``sigma``, in pixels.

    A sample is blurred at all with probability ``prob``. ValueError for a number out of its range.
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
    """Draw everything for N samples, in the order in which it is applied.

    Each argument holds those of the function that draws it: `draw_mask` for ``flip``, ``grayscale``
    and ``solarize``, which None does not draw.
    """
    return PhotometricParams(
        flip=draw_mask(num, **flip, generator=generator),
        jitter=draw_color_jitter(num, **jitter, generator=generator),
        grayscale=draw_mask(num, **grayscale, generator=generator),
        blur=draw_gaussian_blur(num, **blur, generator=generator),
        solarize=None if solarize is None else draw_mask(num, **solarize, generator=generator),
    )
