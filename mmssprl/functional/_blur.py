"""PIL's Gaussian blur, one standard deviation per sample, no value read.

PIL passes a box of fractional width 2 r + 1 three times over a line, with the edge pixels repeated
each time.
"""

import math
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

_NUM_PASSES = 3
_Number = TypeVar("_Number", float, np.ndarray, Tensor)


def box_radius(sigma: _Number) -> _Number:
    """Radius r of the box whose variance is a third of ``sigma`` ** 2."""
    variance = sigma**2 / _NUM_PASSES
    whole = ((12 * variance + 1) ** 0.5 - 1) // 2
    rest = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance)
    return whole + rest / (6 * (variance - (whole + 1) ** 2))


def _blur_matrix(size: int, sigma: Tensor, reach: int) -> Tensor:
    """Matrices (N, size, size) that blur a line; rows sum to 1, sigma 0 is the identity."""
    radius = box_radius(sigma)[:, None, None]
    line = torch.arange(-reach, size + reach, device=sigma.device)
    distance = (line[reach : reach + size, None] - line).abs()
    box = (radius + 1 - distance).clamp_(0, 1).div_(2 * radius + 1)
    # What reaches beyond the line falls on its first and last pixel.
    before, inside, behind = box.split([reach, size, reach], dim=2)
    inside[:, :, 0] += before.sum(dim=2)
    inside[:, :, -1] += behind.sum(dim=2)
    return inside.bmm(inside.bmm(inside))


def blur(x: Tensor, sigma: Tensor, max_sigma: float) -> Tensor:
    """Blur (N, 3, H, W) float32 by ``sigma`` (N,); returns a new tensor. 0 changes last bits."""
    num, _, height, width = x.shape
    reach = math.ceil(box_radius(max_sigma))
    # Dense products beat shifting and adding, which takes a pass over the image per tap.
    columns = _blur_matrix(height, sigma, reach)
    rows = columns if width == height else _blur_matrix(width, sigma, reach)
    # (N, 3, H, W) -> (N, 3 H, W): one matrix for all rows of a sample, then one for its columns.
    lines = x.reshape(num, 3 * height, width).bmm(rows.transpose(1, 2))
    return torch.stack([columns.bmm(plane) for plane in lines.chunk(3, dim=1)], dim=1)
