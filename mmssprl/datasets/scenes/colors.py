"""Random colours that carry no information about what wears them."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

_LUMA = np.array([0.299, 0.587, 0.114])
"""ITU-R BT.601 weights of R, G and B."""


def _color(rng: np.random.Generator, luma: float) -> Array:
    """Draw a colour (3,) in [0, 255] of exactly the given luma and any hue and saturation."""
    direction = rng.standard_normal(3)
    direction -= _LUMA @ direction
    room = np.where(direction > 0, 255 - luma, luma) / np.maximum(np.abs(direction), 1e-9)
    return (luma + rng.uniform(0.1, 0.75) * room.min() * direction).astype(np.float32)


def draw_color_pair(rng: np.random.Generator, *, min_gap: float, max_gap: float) -> Array:
    """Draw two colours, RGB (2, 3) in [0, 255], of lumas in [30, 225] that differ by the gap."""
    gap = rng.uniform(min_gap, max_gap)
    dark = rng.uniform(30, 225 - gap)
    pair = np.stack([_color(rng, dark), _color(rng, dark + gap)])
    return rng.permutation(pair)
