"""Augmentation of images whose channels are no colours.

Legend: N samples, C channels, images (*, C, H, W), the leading dimensions count as N.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from . import _device
from ._photometric_params import BRIGHTNESS, CONTRAST, PhotometricParams

BRIGHTNESS_DEVIATIONS = 2.0
"""Deviations by which a brightness factor of 2, or 0, moves a channel: about what it does to
photographs, whose mean is 2.1 (ImageNet's R, G, B) deviations above black."""


def augment_channels(
    images: Tensor, params: PhotometricParams, *, mean: Sequence[float], std: Sequence[float]
) -> Tensor:
    """Flip, normalise, change brightness and contrast, and blur; each channel by itself.

    Contrast f is z -> m + f (z - m) with the mean m of the sample's channel, brightness f is
    z -> z + 2 (f - 1), both of normalised values z and without clamping. So neither depends on the
    unit or the zero of a channel: kelvin give what degrees Celsius give. All channels of a sample
    share the factors. Hue, saturation, grayscale and solarizing are left out.

    Args:
        images: uint8 or float32, in the unit of ``mean`` and ``std``, C numbers each.
        params: N parameter sets, on the CPU; ``PhotometricParams()`` only normalises.

    Returns:
        (*, C, H, W) float32.
    """
    x, device = images.flatten(0, -4), images.device
    shift, scale = (torch.tensor(each, device=device).view(-1, 1, 1) for each in (mean, std))
    x = (x - shift) / scale

    def per_sample(values: Tensor) -> Tensor:
        return _device.sent(values, device)[:, None, None, None]

    if params.flip is not None:
        x = torch.where(per_sample(params.flip), x.flip(-1), x)
    if params.jitter is not None:
        factors = params.jitter.factors
        x = torch.lerp(x.mean(dim=(2, 3), keepdim=True), x, per_sample(factors[:, CONTRAST]))
        x = x + BRIGHTNESS_DEVIATIONS * per_sample(factors[:, BRIGHTNESS] - 1)
    if params.blur is not None:
        sigma, most = params.blur
        chosen = sigma.nonzero()[:, 0]
        if len(chosen):
            some = _device.sent(chosen, device)
            # Autocast would do the matrix products in half precision.
            with torch.autocast(device.type, enabled=False):
                blurred = _device.blur(x[some], _device.sent(sigma[chosen], device), most)
            x = x.index_copy(0, some, blurred)
    return x.view(images.shape)
