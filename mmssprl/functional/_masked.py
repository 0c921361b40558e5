"""Photometric augmentation where reading a parameter would wait for the device.

All samples are worked on, and masks and the identity's parameters choose. `augment` is one plain
function of tensors, so that it can be compiled.

Legend: images (N, 3, H, W).
"""

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ._blur import blur
from ._color import jitter, luma, normalise, solarized
from ._photometric_params import PhotometricParams


def augment(
    images: Tensor, params: PhotometricParams, scale: Sequence[float], shift: Sequence[float]
) -> Tensor:
    """Flip, jitter, gray, blur, solarize, and ``* scale + shift`` uint8 or float32 in [0, 1].

    Parameters lie where the images do. Returns (N, 3, H, W) float32, in memory (N, H, W, 3).
    """
    x = change(images.float() / 255 if images.dtype == torch.uint8 else images, params)
    return normalise(x, scale, shift).permute(0, 3, 1, 2)


@functools.cache
def compiled_augment() -> Callable[..., Tensor]:
    """`augment` through torch.compile, which compiles once per shape."""
    return torch.compile(augment, dynamic=False)


def change(x: Tensor, params: PhotometricParams) -> Tensor:
    """Do all but the normalisation to (N, 3, H, W) float32 in [0, 1]; returns the same."""
    if params.flip is not None:
        x = torch.where(params.flip[:, None, None, None], x.flip(-1), x)
    if params.jitter is not None:
        x = jitter(x, *params.jitter)
    if params.grayscale is not None:
        x = torch.where(params.grayscale[:, None, None, None], luma(x), x)
    if params.blur is not None:
        # Autocast would do the matrix products in half precision.
        with torch.autocast(x.device.type, enabled=False):
            blurred = blur(x, *params.blur)
        x = torch.where((params.blur.sigma > 0)[:, None, None, None], blurred, x)
    if params.solarize is not None:
        x = torch.where(params.solarize[:, None, None, None], solarized(x), x)
    return x
