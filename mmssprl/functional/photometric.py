"""Photometric augmentation of a batch of crops, with one parameter set per sample.

Legend: N samples, images (N, 3, H, W), RGB, float32 in [0, 1] or uint8. uint8 images are worked on
in float32 and rounded once, at the end of each function. The input is never changed.

Every operation is a pair: ``draw_*`` draws the parameters of N samples from an explicit generator,
``apply_*`` applies given parameters; the function named after the operation does both. What is
drawn depends on the generator's state and N only. A sample that the apply-probability leaves out
carries the identity's parameters.
"""

import math
from functools import partial
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from ._color import (
    BRIGHTNESS,
    CONTRAST,
    HUE,
    SATURATION,
    grayscale_,
    jitter_masked_,
    jitter_run_,
    jitter_steps,
)
from ._per_sample import apply_per_sample, in_unit_range, params_are_free

__all__ = [
    "BRIGHTNESS",
    "CONTRAST",
    "HUE",
    "SATURATION",
    "ColorJitterParams",
    "GaussianBlurParams",
    "apply_color_jitter",
    "apply_gaussian_blur",
    "apply_grayscale",
    "apply_horizontal_flip",
    "color_jitter",
    "draw_color_jitter",
    "draw_gaussian_blur",
    "draw_mask",
    "gaussian_blur",
    "horizontal_flip",
    "random_grayscale",
]

_IDENTITY = (1.0, 1.0, 1.0, 0.0)
_BLUR_PASSES = 3  # PIL: a Gaussian is three box blurs


class ColorJitterParams(NamedTuple):
    """Parameters of N colour jitters.

    Attributes:
        order: (N, 4) int64, each row a permutation: ``order[n, k]`` is the operation applied as
            k-th, one of BRIGHTNESS, CONTRAST, SATURATION, HUE.
        factors: (N, 4) float32, columns in the order of these constants. The first three are
            blend factors >= 0 (1 changes nothing), the last a hue shift in turns, in [-0.5, 0.5].
    """

    order: Tensor
    factors: Tensor


class GaussianBlurParams(NamedTuple):
    """Parameters of N blurs.

    Attributes:
        sigma: (N,) float32, standard deviation in pixels; 0 changes nothing.
        max_sigma: Upper bound of ``sigma`` that is known without reading it from its device.
    """

    sigma: Tensor
    max_sigma: float


def draw_mask(num: int, *, prob: float, generator: Generator) -> Tensor:
    """Draw N independent decisions.

    Args:
        num: N.
        prob: Probability of True, in [0, 1].
        generator: Source of the draw; its device is the result's.

    Returns:
        (N,) bool.

    Raises:
        ValueError: ``prob`` is no probability.
    """
    if not 0 <= prob <= 1:
        raise ValueError(f"prob must be a probability in [0, 1], but got {prob}.")
    return torch.rand(num, generator=generator, device=generator.device) < prob


def draw_color_jitter(
    num: int,
    *,
    brightness: float,
    contrast: float,
    saturation: float,
    hue: float,
    prob: float,
    generator: Generator,
) -> ColorJitterParams:
    """Draw N parameter sets with the distributions of torchvision's ColorJitter.

    Args:
        num: N.
        brightness: Strength x >= 0; the factor is uniform in [max(0, 1 - x), 1 + x].
        contrast: As ``brightness``.
        saturation: As ``brightness``.
        hue: Strength x in [0, 0.5]; the shift is uniform in [-x, x] turns.
        prob: Probability in [0, 1] that a sample is jittered at all.
        generator: Source of the draw; its device is the result's.

    Returns:
        N parameter sets.

    Raises:
        ValueError: A strength or the probability is out of its range.
    """
    strengths = {"brightness": brightness, "contrast": contrast, "saturation": saturation}
    for name, strength in strengths.items():
        if not 0 <= strength < math.inf:
            raise ValueError(f"{name} must be a strength >= 0, but got {strength}.")
    if not 0 <= hue <= 0.5:
        raise ValueError(f"hue must be a strength in [0, 0.5] turns, but got {hue}.")
    bounds = [(max(0.0, 1 - x), 1 + x) for x in strengths.values()] + [(-hue, hue)]
    applied = draw_mask(num, prob=prob, generator=generator)
    order = torch.rand(num, 4, generator=generator, device=generator.device).argsort(dim=1)
    uniform = torch.rand(num, 4, generator=generator, device=generator.device)
    columns = [
        torch.where(applied, column * (high - low) + low, identity)
        for column, (low, high), identity in zip(uniform.unbind(1), bounds, _IDENTITY, strict=True)
    ]
    return ColorJitterParams(order, torch.stack(columns, dim=1))


def draw_gaussian_blur(
    num: int, *, sigma: tuple[float, float], prob: float, generator: Generator
) -> GaussianBlurParams:
    """Draw N standard deviations.

    Args:
        num: N.
        sigma: (low, high) in pixels, 0 <= low <= high; the draw is uniform in between.
        prob: Probability in [0, 1] that a sample is blurred at all.
        generator: Source of the draw; its device is the result's.

    Returns:
        N parameter sets.

    Raises:
        ValueError: ``sigma`` or ``prob`` is out of its range.
    """
    if len(sigma) != 2 or not 0 <= sigma[0] <= sigma[1] < math.inf:
        raise ValueError(f"sigma must be (low, high) with 0 <= low <= high, but got {sigma}.")
    low, high = sigma
    applied = draw_mask(num, prob=prob, generator=generator)
    drawn = torch.rand(num, generator=generator, device=generator.device) * (high - low) + low
    return GaussianBlurParams(torch.where(applied, drawn, 0.0), high)


def horizontal_flip(images: Tensor, *, prob: float, generator: Generator) -> Tensor:
    """Mirror each sample left to right with probability ``prob``; images as in the legend."""
    return apply_horizontal_flip(images, draw_mask(len(images), prob=prob, generator=generator))


def random_grayscale(images: Tensor, *, prob: float, generator: Generator) -> Tensor:
    """Make each sample gray with probability ``prob``; images as in the legend."""
    return apply_grayscale(images, draw_mask(len(images), prob=prob, generator=generator))


def color_jitter(
    images: Tensor,
    *,
    brightness: float,
    contrast: float,
    saturation: float,
    hue: float,
    prob: float,
    generator: Generator,
) -> Tensor:
    """Jitter the colours of each sample: `draw_color_jitter`, then `apply_color_jitter`."""
    params = draw_color_jitter(
        len(images),
        brightness=brightness,
        contrast=contrast,
        saturation=saturation,
        hue=hue,
        prob=prob,
        generator=generator,
    )
    return apply_color_jitter(images, params)


def gaussian_blur(
    images: Tensor, *, sigma: tuple[float, float], prob: float, generator: Generator
) -> Tensor:
    """Blur each sample: `draw_gaussian_blur`, then `apply_gaussian_blur`."""
    params = draw_gaussian_blur(len(images), sigma=sigma, prob=prob, generator=generator)
    return apply_gaussian_blur(images, params)


def apply_horizontal_flip(images: Tensor, mask: Tensor) -> Tensor:
    """Mirror the samples where ``mask`` (N,) bool is True; images as in the legend."""
    return apply_per_sample(images, _flip_, mask)


def apply_grayscale(images: Tensor, mask: Tensor) -> Tensor:
    """Set R = G = B = luma where ``mask`` (N,) bool is True; images as in the legend."""
    return apply_per_sample(images, in_unit_range(grayscale_), mask)


def apply_color_jitter(images: Tensor, params: ColorJitterParams) -> Tensor:
    """Apply given jitters; images as in the legend.

    As in torchvision, each operation ends with a clamp to [0, 1]; contrast blends with the mean of
    the image's grayscale, saturation with the grayscale, brightness with black, and the hue shift
    keeps value and saturation of HSV.
    """
    order, factors = params
    mask = (factors[:, :HUE] != 1).any(dim=1) | (factors[:, HUE] != 0)
    steps = jitter_steps(order, factors, math.prod(images.shape[2:]))
    if not params_are_free(images):
        return apply_per_sample(images, in_unit_range(jitter_masked_), mask, *steps)
    run_ = in_unit_range(jitter_run_)
    return apply_per_sample(images, run_, mask, *steps, run=steps.hue_at)


def apply_gaussian_blur(images: Tensor, params: GaussianBlurParams) -> Tensor:
    """Apply given blurs as PIL's ``GaussianBlur(sigma)`` does; images as in the legend.

    PIL passes a box filter of fractional width three times, with the edge pixels repeated: a kernel
    of variance sigma ** 2 exactly, not a sampled Gaussian. Differs from PIL: no rounding to levels
    between the passes.
    """
    max_radius = math.ceil(_box_radius(torch.tensor(params.max_sigma)).item())
    blur_ = in_unit_range(partial(_blur_, max_radius=max_radius))
    return apply_per_sample(images, blur_, params.sigma > 0, params.sigma)


def _flip_(images: Tensor) -> None:
    images.copy_(images.flip(-1))


def _box_radius(sigma: Tensor) -> Tensor:
    """Radius r of the box of width 2 r + 1 whose variance is a third of ``sigma`` ** 2."""
    variance = sigma.square() / _BLUR_PASSES
    whole = ((12 * variance + 1).sqrt() - 1).div(2).floor()
    rest = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance)
    return whole + rest / (6 * (variance - (whole + 1).square()))


def _blur_matrix(size: int, sigma: Tensor, max_radius: int) -> Tensor:
    """Matrices (n, size, size) that blur a line; rows sum to 1, sigma 0 is the identity."""
    radius = _box_radius(sigma)[:, None, None]
    line = torch.arange(-max_radius, size + max_radius, device=sigma.device)
    distance = (line[max_radius : max_radius + size, None] - line).abs()
    box = (radius + 1 - distance).clamp_(0, 1).div_(2 * radius + 1)
    # What reaches beyond the line falls on its first and last pixel.
    before, inside, behind = box.split([max_radius, size, max_radius], dim=2)
    inside[:, :, 0] += before.sum(dim=2)
    inside[:, :, -1] += behind.sum(dim=2)
    return inside.bmm(inside.bmm(inside))


def _blur_(images: Tensor, sigma: Tensor, max_radius: int) -> None:
    num, _, height, width = images.shape
    # Dense products beat shifting and adding, which takes a pass over the image per tap.
    columns = _blur_matrix(height, sigma, max_radius)
    rows = columns if width == height else _blur_matrix(width, sigma, max_radius)
    lines = images.view(num, 3 * height, width).bmm(rows.transpose(1, 2))
    for plane, blurred in zip(images.unbind(1), lines.chunk(3, dim=1), strict=True):
        plane.copy_(columns.bmm(blurred))
