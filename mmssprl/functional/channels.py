"""Augmentation of images whose channels are no colours."""

from collections.abc import Sequence

import torch
from torch import Tensor

from . import _device
from .photometric_params import BRIGHTNESS, CONTRAST, PhotometricParams

BRIGHTNESS_DEVIATIONS = 2.0
"""Deviations by which the brightness factors 0 and 2 move a channel: as far as photographs, whose
mean is some 2 deviations above black."""


def augment_channels(
    images: Tensor, params: PhotometricParams, *, mean: Sequence[float], std: Sequence[float]
) -> Tensor:
    """Mirror, normalise, change contrast and brightness, and blur; nothing mixes channels.

    Contrast f is z -> m + f (z - m), m the mean of the sample's channel; brightness f is
    z -> z + 2 (f - 1); of normalised values z, without clamping. So neither depends on the unit or
    the zero of a channel: kelvin give what degrees Celsius give.

    ``images`` are (*, C, H, W) in the unit of ``mean`` and ``std``, the result is float32. The
    parameters lie on the CPU; saturation, hue, grayscale and solarizing are left out.
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
        # Autocast would do the matrix products in half precision.
        with torch.autocast(images.device.type, enabled=False):
            blurred = _device.blur(x[sent(chosen)], sent(blur.sigma[chosen]), blur.max_sigma)
        x = x.index_copy(0, sent(chosen), blurred)
    return x.view(images.shape)
