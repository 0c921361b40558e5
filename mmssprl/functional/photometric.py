"""Photometric augmentation of a batch of crops, with one parameter set per sample.

Legend: N samples, images (N, 3, H, W), RGB, float32 in [0, 1] or uint8. All operations use float32
and leave the input unchanged.

The jitter is torchvision's. Each operation ends with a clamp to [0, 1]. Contrast blends with the
mean of the image's grayscale, saturation with the grayscale, and brightness with black. The hue
shift keeps value and saturation of HSV. The blur is PIL's ``GaussianBlur(sigma)``: a box filter of
fractional width passes three times, which is a kernel of variance sigma ** 2 exactly, not a sampled
Gaussian. Differs from PIL: no rounding to levels between the passes.

Compiled loops on the CPU, and the default way on other devices, do only what each sample needs.
With torch.compile, every operation runs on all samples, fused, and masks select the results.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import UserValueError
from . import _cpu_batch, _device
from .photometric_params import PhotometricParams


def apply_photometric(
    images: Tensor,
    params: PhotometricParams,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    compile: bool = False,
) -> Tensor:
    """Flip, jitter, gray, blur, solarize and normalise, without rounding in between.

    Args:
        images: (*, 3, H, W), uint8 or float32 in [0, 1]. N counts all leading dimensions.
        params: N parameter sets, on the CPU; ``PhotometricParams()`` only normalises.
        mean: Per channel, R, G, B, for images in [0, 1].
        std: As ``mean``, > 0.
        compile: Whether torch.compile fuses the operations, once per shape. No effect on the CPU.

    Returns:
        (*, 3, H, W) float32, in memory (*, H, W, 3).

    Raises:
        ValueError: Other images, other parameters than one set per sample, or a blur that is not
                finite.
    """
    _check(images, params)
    scale = [1 / s for s in std]
    shift = [-m / s for m, s in zip(mean, std, strict=True)]
    if images.device.type == "cpu":
        return _cpu_batch.augment(images, params, scale, shift)
    return augment_on_device(images, params, scale, shift, compile=compile)


def _check(images: Tensor, params: PhotometricParams) -> None:
    """Raise ValueError for other types or shapes: the compiled loops read without a check."""
    if images.shape[-3] != 3 or images.dtype not in (torch.uint8, torch.float32):
        raise UserValueError(
            "images must be (*, 3, H, W), uint8 or float32 in [0, 1], but got "
            f"{tuple(images.shape)}, {images.dtype}; convert them."
        )

    num = math.prod(images.shape[:-3])
    flip, jitter, grayscale, blur, solarize = params
    masks = [flip, grayscale, blur and blur.sigma, solarize]
    wanted: list[tuple[Tensor, tuple[int, ...]]]
    wanted = [(each, (num,)) for each in masks if each is not None]
    wanted += [(each, (num, 4)) for each in jitter or ()]
    if any(tensor.shape != shape for tensor, shape in wanted):
        raise UserValueError(
            f"there must be one parameter set per sample, {num} here, but got "
            f"{[tuple(tensor.shape) for tensor, _ in wanted]}; draw as many."
        )


def augment_on_device(
    images: Tensor,
    params: PhotometricParams,
    scale: Sequence[float],
    shift: Sequence[float],
    *,
    compile: bool = False,
) -> Tensor:
    """Augment without reading a parameter from the device, and multiply and add per channel."""
    batch = images.flatten(0, -4)
    if compile:
        moved = _moved(params, images.device)
        return _device.compiled_augment()(batch, moved, scale, shift).view(images.shape)
    return _device.augment_sorted(batch, params, scale, shift).view(images.shape)


def _moved(value: Any, device: torch.device) -> Any:
    """Copy the tensors of nested named tuples to a device."""
    if isinstance(value, tuple):
        return type(value)(*(_moved(each, device) for each in value))
    return _device.sent(value, device) if isinstance(value, Tensor) else value
