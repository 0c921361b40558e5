"""Augmentation of images with channels that are not colours."""

from collections.abc import Sequence

import torch
from torch import Tensor

from . import _device
from .photometric_params import BRIGHTNESS, CONTRAST, PhotometricParams

BRIGHTNESS_DEVIATIONS = 2.0
"""Standard deviations by which the brightness factors 0 and 2 shift a channel. The mean of
photographs is about 2 deviations above black, so they shift as far."""


def augment_channels(
    images: Tensor, params: PhotometricParams, *, mean: Sequence[float], std: Sequence[float]
) -> Tensor:
    """Mirror, normalise, change contrast and brightness, and blur. Nothing mixes channels.

    On normalised values z, contrast f is z -> m + f (z - m) with m the mean of the sample's
    channel, and brightness f is z -> z + 2 (f - 1), without clamping. Neither depends on the unit
    or the zero of a channel: kelvin and degrees Celsius give the same result.

    ``images`` are (*, C, H, W) in the unit of ``mean`` and ``std``, and the result is float32. The
    parameters must be on the CPU. Saturation, hue, grayscale and solarizing are ignored.
    """
    flip, jitter, _, blur, _ = params

    def sent(values: Tensor) -> Tensor:
        return _device.sent(values, images.device)

    shift, scale = sent(torch.tensor([mean, std])[..., None, None])  # each (C, 1, 1)
    x = (images.flatten(0, -4) - shift) / scale

    if flip is not None:
        x = torch.where(sent(flip)[:, None, None, None], x.flip(-1), x)
    if jitter is not None:
        factors = sent(jitter.factors)[..., None, None, None]  # (N, 4, 1, 1, 1)
        x = torch.lerp(x.mean(dim=(2, 3), keepdim=True), x, factors[:, CONTRAST])
        x = x + BRIGHTNESS_DEVIATIONS * (factors[:, BRIGHTNESS] - 1)
    if blur is not None and len(chosen := blur.sigma.nonzero()[:, 0]):
        blurred = _device.blur(x[sent(chosen)], sent(blur.sigma[chosen]), blur.max_sigma)
        x = x.index_copy(0, sent(chosen), blurred)
    return x.view(images.shape)
