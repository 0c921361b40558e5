"""Where crops lie in their image, read off the crops themselves."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_BORDER = 0.15


def crop_boxes(
    crop: Callable[[Tensor], list[Tensor]], height: int, width: int
) -> list[NDArray[np.float64]]:
    """Find the boxes that ``crop`` cuts from images of one size.

    It is given an image whose red channel rises with x and whose green channel rises with y; a
    crop of it tells its own place. So the boxes are those of the code that trains, not of a copy.

    Args:
        crop: Takes a uint8 image (3, height, width) and gives, per group, uint8 crops
            (N_g, 3, px, px); unflipped, and the same boxes on every call.
        height: Of the image in pixels.
        width: Of the image in pixels.

    Returns:
        Per group (N_g, 4): left, top, right, bottom in pixels, exact to about 1 % of the image.
    """
    ramp = torch.zeros(3, height, width)
    # Pixel i of n is centred at (i + 0.5) / n of the side; 256 levels over the side.
    ramp[0] = 256 * (torch.arange(width) + 0.5) / width - 0.5
    ramp[1] = (256 * (torch.arange(height) + 0.5) / height - 0.5)[:, None]
    boxes = []
    for crops in crop(ramp.round().clamp(0, 255).to(torch.uint8)):
        shares = (crops[:, :2].double() + 0.5).numpy() / 256
        left, right = _ends(shares[:, 0].mean(axis=1))
        top, bottom = _ends(shares[:, 1].mean(axis=2))
        boxes.append(np.stack([left * width, top * height, right * width, bottom * height], 1))
    return boxes


def _ends(profiles: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit lines to profiles (N, px) and return their values at both edges of the crop."""
    px = profiles.shape[1]
    centres = (np.arange(px) + 0.5) / px
    # Resizing bends the ramp within a pixel or two of the crop's border.
    inner = (centres > _BORDER) & (centres < 1 - _BORDER)
    slope, offset = np.polyfit(centres[inner], profiles[:, inner].T, 1)
    return offset.clip(0, 1), (offset + slope).clip(0, 1)
