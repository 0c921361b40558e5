"""The 6 textures of objects, as signed distances, and random colours that tell nothing.

Legend: u, v float arrays of one shape, the coordinates in the object's unit disc. A texture returns
the distance, in units of the object's radius, to the nearest border between its two colours,
positive where the second colour lies. All periods are relative to the object: a texture looks alike
at every scale. The distance is exact enough near a border to anti-alias it.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


def _bands(t: Array, period: float, phase: float) -> Array:
    """Signed distance to the borders of parallel bands of equal width, ``period / 2``."""
    return np.abs((t / period + phase) % 1.0 - 0.5) * period - period / 4


def _striped(u: Array, v: Array, rng: np.random.Generator) -> Array:
    return _bands(v, _period(rng), rng.random())


def _checked(u: Array, v: Array, rng: np.random.Generator) -> Array:
    period = 1.15 * _period(rng)
    rows, columns = _bands(v, period, rng.random()), _bands(u, period, rng.random())
    return np.sign(rows * columns) * np.minimum(np.abs(rows), np.abs(columns))


def _dotted(u: Array, v: Array, rng: np.random.Generator) -> Array:
    pitch = 0.9 * _period(rng)
    row = v / pitch + rng.random()
    column = u / pitch + rng.random() + 0.5 * (np.floor(row) % 2)
    return pitch * (0.36 - np.hypot(column % 1.0 - 0.5, row % 1.0 - 0.5))


def _zigzag(u: Array, v: Array, rng: np.random.Generator) -> Array:
    period = 1.1 * _period(rng)
    chevron = np.abs((u / period * 0.8 + rng.random()) % 1.0 - 0.5) * period * 1.6
    # The bands run at a slope, so their true width is the vertical one over sqrt(1 + slope^2).
    return _bands(v + chevron, period, rng.random()) / np.float32(np.sqrt(1 + 1.28**2))


def _ringed(u: Array, v: Array, rng: np.random.Generator) -> Array:
    return _bands(np.hypot(u, v), 0.95 * _period(rng), rng.random())


def _rayed(u: Array, v: Array, rng: np.random.Generator) -> Array:
    period = 2 * np.pi / int(rng.integers(6, 9))
    return _bands(np.arctan2(v, u), period, rng.random()) * np.hypot(u, v)


def _period(rng: np.random.Generator) -> float:
    """Draw a period of 3.2 to 4.4 bands per diameter, in radii."""
    return 2.0 / rng.uniform(3.2, 4.4)


TEXTURES: dict[str, Callable[[Array, Array, np.random.Generator], Array]] = {
    "striped": _striped,
    "checked": _checked,
    "dotted": _dotted,
    "zigzag": _zigzag,
    "ringed": _ringed,
    "rayed": _rayed,
}


def texture_share(
    texture: str, u: Array, v: Array, *, radius_px: float, rng: np.random.Generator
) -> Array:
    """Draw the share [0, 1] of the second colour, with random period, phase and slant.

    ``radius_px``, the object's radius in pixels, sets the width of the smoothed borders.
    """
    slant = rng.uniform(-0.35, 0.35)
    cos, sin = np.float32(np.cos(slant)), np.float32(np.sin(slant))
    distance = TEXTURES[texture](cos * u - sin * v, sin * u + cos * v, rng)
    return np.clip(0.5 + distance * np.float32(radius_px), 0.0, 1.0)


_LUMA = np.array([0.299, 0.587, 0.114])
"""ITU-R BT.601 weights of R, G and B."""


def _color(rng: np.random.Generator, luma: float) -> NDArray[np.float32]:
    """Draw a colour (3,) in [0, 255] of exactly the given luma and any hue and saturation."""
    direction = rng.standard_normal(3)
    direction -= _LUMA @ direction
    room = np.where(direction > 0, 255 - luma, luma) / np.maximum(np.abs(direction), 1e-9)
    return (luma + rng.uniform(0.1, 0.75) * room.min() * direction).astype(np.float32)


def draw_color_pair(
    rng: np.random.Generator, *, min_gap: float, max_gap: float
) -> NDArray[np.float32]:
    """Draw two colours, RGB (2, 3) in [0, 255], of lumas in [30, 225] that differ by the gap."""
    gap = rng.uniform(min_gap, max_gap)
    dark = rng.uniform(30, 225 - gap)
    pair = np.stack([_color(rng, dark), _color(rng, dark + gap)])
    return rng.permutation(pair)
