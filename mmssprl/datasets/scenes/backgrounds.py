"""The 8 scene types, which differ only in structure.

Legend: x, y float32 coordinates (H, W) in [0, 1], y pointing down. A structure returns its ink and
its tone, fields (H, W). The lowest values of the ink become the lines or bands. The tone in [-1, 1]
varies slowly, such as from brick to brick. Every scene inks the same fraction and has the same
strength of tone, so that colour statistics do not identify it.
"""

from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from .objects import draw_color_pair, turned

Array = NDArray[np.floating]


def _wrapped(t: Array) -> Array:
    """Distance to the nearest integer, in [0, 0.5]."""
    return np.abs(t - np.rint(t))


def _hash_tone(rng: np.random.Generator, rows: Array, columns: Array) -> Array:
    """Give each cell (integer row, integer column) a random tone in [-1, 1]."""
    table = rng.uniform(-1, 1, (64, 64)).astype(np.float32)
    return table[rows.astype(np.int64) % 64, columns.astype(np.int64) % 64]


def _smooth_noise(rng: np.random.Generator, height: int, width: int, cells: int) -> Array:
    """Noise (H, W) in about [-1, 1] with features of 1 / cells of the side."""
    grid = rng.uniform(-1, 1, (cells + 3, cells + 3)).astype(np.float32)
    noise = cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC)
    return np.asarray(noise, np.float32)


def _field(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Furrows running to a vanishing point on the horizon, below an empty sky."""
    horizon = rng.uniform(0.22, 0.4)
    vanishing = rng.uniform(0.2, 0.8)
    # The vanishing point is above the horizon, because furrows would alias where they meet.
    depth = np.maximum(y - horizon, 0) + 0.1
    furrow = (x - vanishing) / depth * rng.uniform(1.2, 1.8) + rng.random()

    ground = y > horizon
    ink = np.where(ground, _wrapped(furrow), 1.0)
    tone = np.where(ground, _hash_tone(rng, np.zeros_like(y), np.rint(furrow)), -0.8)
    return ink.astype(np.float32), tone.astype(np.float32)


def _tiles(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Square tiles, a little turned."""
    u, v = turned(x, y, rng.uniform(-0.15, 0.15))
    count = rng.uniform(4, 6)
    u = u * count + rng.random()
    v = v * count + rng.random()
    return np.minimum(_wrapped(u), _wrapped(v)), _hash_tone(rng, np.floor(v), np.floor(u))


def _sea(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Rolling waves that grow towards the viewer."""
    swell = 0.035 * np.sin(2 * np.pi * (rng.uniform(2, 3.5) * x + rng.random()) + 5 * y)
    band = (rng.uniform(7, 10) * (y + swell)) / (0.6 + 0.8 * y) + rng.random()
    return _wrapped(band), _hash_tone(rng, np.floor(band + 0.5), np.zeros_like(x))


def _sunburst(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Beams spreading from a point."""
    centre_x, centre_y = rng.uniform(0.15, 0.85, 2)
    count = int(rng.integers(10, 15))
    turn = np.arctan2(y - centre_y, x - centre_x) / (2 * np.pi) * count + rng.random()
    return _wrapped(turn), _hash_tone(rng, np.zeros_like(x), np.rint(turn) % count)


def _bricks(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Courses of bricks in running bond, a little turned."""
    u, v = turned(x, y, rng.uniform(-0.1, 0.1))
    count = rng.uniform(6.5, 9)
    v = v * count + rng.random()
    course = np.floor(v)
    u = u * count / 2 + rng.random() + (course % 2) / 2
    return np.minimum(2 * _wrapped(u), _wrapped(v)), _hash_tone(rng, course, np.floor(u))


def _clouds(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Ragged patches."""
    height, width = x.shape
    noise = sum(_smooth_noise(rng, height, width, 4 * 2**k) * 0.5**k for k in range(4))
    return np.asarray(noise, np.float32), _smooth_noise(rng, height, width, 6)


def _lattice(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """A wire fence: two families of slanted lines."""
    count = rng.uniform(4.5, 6.5)
    slope = rng.uniform(0.45, 0.65)
    u = count * (x + slope * y) + rng.random()
    v = count * (x - slope * y) + rng.random()
    return np.minimum(_wrapped(u), _wrapped(v)), _hash_tone(rng, np.floor(u), np.floor(v))


def _planks(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Upright boards with wavy grain."""
    u, _ = turned(x, y, rng.uniform(-0.12, 0.12))
    u = u * rng.uniform(4, 5.5) + rng.random()
    board = np.floor(u)

    shift = _hash_tone(rng, np.zeros_like(x), board)
    wave = 0.12 * np.sin(2 * np.pi * (rng.uniform(1.2, 2.2) * y + 2 * shift))
    grain = 0.03 + 0.4 * _wrapped(3 * (u - board) + wave)
    return np.minimum(_wrapped(u), grain).astype(np.float32), shift


STRUCTURES: dict[str, Callable[[Array, Array, np.random.Generator], tuple[Array, Array]]] = {
    "field": _field,
    "tiles": _tiles,
    "sea": _sea,
    "sunburst": _sunburst,
    "bricks": _bricks,
    "clouds": _clouds,
    "lattice": _lattice,
    "planks": _planks,
}


def draw_background(rng: np.random.Generator, scene: str, size_px: int) -> Array:
    """Paint the background of a scene in two random colours: RGB (H, W, 3), not clipped."""
    steps = (np.arange(size_px, dtype=np.float32) + np.float32(0.5)) / np.float32(size_px)
    x, y = np.meshgrid(steps, steps)
    if rng.random() < 0.5:
        x = 1 - x
    ink, tone = STRUCTURES[scene](x, y, rng)

    # Quantiles instead of line widths, so that all scenes have the same distribution of ink.
    inked = rng.uniform(0.22, 0.38)
    low, edge = np.quantile(ink[::2, ::2], [inked, inked + 0.05])
    blend = np.clip((ink - low) / max(edge - low, 1e-6), 0, 1).astype(np.float32)[..., None]

    first, second = draw_color_pair(rng, min_gap=25, max_gap=75)
    image = first + (second - first) * blend
    cloudiness = _smooth_noise(rng, size_px, size_px, 5)
    image *= 1 + 0.1 * (tone + cloudiness)[..., None]
    return cv2.GaussianBlur(image, (0, 0), 0.004 * size_px)
