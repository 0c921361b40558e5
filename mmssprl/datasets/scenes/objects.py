"""Objects: the outlines of the 12 shapes, the pixels that they cover, the 6 textures, the colours.

An outline is a list of contours, float64 arrays (N, 2) of (x, y) with y pointing down, filled by
the even-odd rule. It fits the unit disc and touches it.

A texture takes coordinates u, v in the object's unit disc. It returns the distance, in radii, to
the nearest border between its two colours, positive in the second colour. All periods are relative
to the object, so that a texture looks alike at every scale.
"""

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

MIN_SCALE = 0.1
MAX_SCALE = 0.6
"""Range of an object's diameter (of its circumscribed circle) over the image side."""

_SUPERSAMPLING = 4
_SHIFT_BITS = 4
_ARC_POINTS = 48

Contour = NDArray[np.floating]
Field = NDArray[np.floating]
Array = NDArray[np.float32]
Window = tuple[slice, slice]
"""Rows and columns."""
_LUMA = np.array([0.299, 0.587, 0.114])  # ITU-R BT.601 weights of R, G and B


def _polar(radii: float | Contour, angles: Contour) -> Contour:
    """Points at ``angles`` in radians, measured from straight up, clockwise."""
    return np.stack([radii * np.sin(angles), -radii * np.cos(angles)], axis=1)


def _turns(num: int) -> Contour:
    return np.arange(num) * (2 * np.pi / num)


def _mirrored(right: list[tuple[float, float]]) -> Contour:
    """Close a right half, listed from top to bottom, with its mirror image."""
    return np.array(right + [(-x, y) for x, y in reversed(right)])


def _cross() -> Contour:
    arm = 0.36
    quarter = np.array([(arm, -1.0), (arm, -arm), (1.0, -arm)])
    turn = np.array([(0.0, 1.0), (-1.0, 0.0)])
    return np.concatenate([quarter @ np.linalg.matrix_power(turn, k) for k in range(4)])


def _crescent() -> Contour:
    """Disc minus a disc of the same size shifted to the right by its radius times 0.8."""
    shift = 0.8
    tip = np.arccos(shift / 2)
    outer = np.linspace(tip, 2 * np.pi - tip, _ARC_POINTS)
    inner = np.linspace(np.pi + tip, np.pi - tip, _ARC_POINTS // 2)
    return np.concatenate(
        [
            np.stack([np.cos(outer), np.sin(outer)], axis=1),
            np.stack([shift + np.cos(inner), np.sin(inner)], axis=1)[1:-1],
        ]
    )


def _heart() -> Contour:
    t = _turns(_ARC_POINTS)
    x = 16 * np.sin(t) ** 3
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return np.stack([x, -y - 2.5], axis=1)


def _drop() -> Contour:
    t = _turns(_ARC_POINTS)
    return np.stack([0.75 * np.sin(t) * np.sin(t / 2) ** 1.3, 0.1 - np.cos(t)], axis=1)


def _unit(*contours: Contour) -> list[Contour]:
    """Scale the contours about the origin until the farthest point lies on the unit circle."""
    radius = max(float(np.linalg.norm(contour, axis=1).max()) for contour in contours)
    return [contour / radius for contour in contours]


OUTLINES: dict[str, list[Contour]] = {
    "disc": _unit(_polar(1.0, _turns(_ARC_POINTS))),
    "square": _unit(_polar(1.0, _turns(4) + np.pi / 4)),
    "triangle": _unit(_polar(1.0, _turns(3))),
    "star": _unit(_polar(np.where(np.arange(10) % 2 == 0, 1.0, 0.45), _turns(10))),
    "ring": _unit(_polar(1.0, _turns(_ARC_POINTS)), _polar(0.42, _turns(_ARC_POINTS))),
    "cross": _unit(_cross()),
    "crescent": _unit(_crescent()),
    "heart": _unit(_heart()),
    "arrow": _unit(_mirrored([(0, -1), (0.9, -0.05), (0.38, -0.05), (0.38, 0.9)])),
    "hexagon": _unit(_polar(1.0, _turns(6))),
    "hourglass": _unit(_mirrored([(0.75, -0.9), (0.22, 0.0), (0.75, 0.9)])),
    "drop": _unit(_drop()),
}


@dataclass(frozen=True)
class Pose:
    """An object's place, and its coverage of the pixels of a square box around it."""

    center_px: NDArray[np.float64]
    """(x, y) from the image's top left corner."""
    radius_px: float
    to_upright: NDArray[np.float64]
    """(2, 2), takes points of the unit disc to the upright object's unit disc."""
    left: int
    top: int
    """Image column and row of the box's corner; negative outside the image."""
    coverage: Array
    """(side, side) in [0, 1], the anti-aliased silhouette."""


def draw_pose(rng: np.random.Generator, shape: str, size_px: int) -> Pose:
    """Draw an object's place and form, at most a quarter of its diameter beyond each side."""
    scale = MIN_SCALE * (MAX_SCALE / MIN_SCALE) ** (rng.random() ** 0.65)
    radius = scale / 2 * size_px
    center = rng.uniform(radius / 2, size_px - radius / 2, 2)

    # Stretched to an aspect (width over height), then turned clockwise, in radians.
    angle = rng.uniform(-0.5, 0.5)
    aspect = rng.uniform(0.85, 1.18)
    turn = np.array([(np.cos(angle), -np.sin(angle)), (np.sin(angle), np.cos(angle))])
    matrix = turn @ np.diag([np.sqrt(aspect), 1 / np.sqrt(aspect)])
    contours = [contour @ matrix.T for contour in OUTLINES[shape]]
    reach = max(float(np.linalg.norm(contour, axis=1).max()) for contour in contours)

    left, top = (int(np.floor(c - radius)) - 1 for c in center)
    side = int(np.ceil(2 * radius)) + 3
    placed = [contour / reach * radius + center - (left, top) for contour in contours]
    to_upright = np.linalg.inv(matrix) * reach
    return Pose(center, radius, to_upright, left, top, _rasterize(placed, side))


def _rasterize(contours: list[Contour], side: int) -> Array:
    """Fill contours, in pixels from the corner of a (side, side) box; coverage in [0, 1]."""
    scale = _SUPERSAMPLING * 2**_SHIFT_BITS
    # OpenCV's integer coordinates are pixel centres, half a fine pixel off the corner.
    points = [np.rint(c * scale - 2 ** (_SHIFT_BITS - 1)).astype(np.int32) for c in contours]
    fine = np.zeros((side * _SUPERSAMPLING,) * 2, np.uint8)
    cv2.fillPoly(fine, points, 255, shift=_SHIFT_BITS)
    coverage = cv2.resize(fine, (side, side), interpolation=cv2.INTER_AREA)
    return coverage.astype(np.float32) / np.float32(255)


def clip_box(left: int, top: int, side: int, size_px: int) -> tuple[Window, Window]:
    """Return the part of a square box inside the image, as windows of the image and the box."""
    rows, box_rows = _clip_line(top, side, size_px)
    columns, box_columns = _clip_line(left, side, size_px)
    return (rows, columns), (box_rows, box_columns)


def _clip_line(start: int, side: int, size_px: int) -> tuple[slice, slice]:
    """Return the part of a box's side inside the image, from the image's and the box's edge."""
    low = max(start, 0)
    high = max(min(start + side, size_px), 0)
    return slice(low, high), slice(low - start, high - start)


def turned(x: Field, y: Field, angle: float) -> tuple[Field, Field]:
    """Return the coordinates after a turn by ``angle`` in radians."""
    cos = np.float32(np.cos(angle))
    sin = np.float32(np.sin(angle))
    return cos * x - sin * y, sin * x + cos * y


def _bands(t: Field, period: float, phase: float) -> Field:
    """Signed distance to the borders of parallel bands of equal width, ``period / 2``."""
    return np.abs((t / period + phase) % 1.0 - 0.5) * period - period / 4


def _striped(u: Field, v: Field, rng: np.random.Generator) -> Field:
    return _bands(v, _period(rng), rng.random())


def _checked(u: Field, v: Field, rng: np.random.Generator) -> Field:
    period = 1.15 * _period(rng)
    rows = _bands(v, period, rng.random())
    columns = _bands(u, period, rng.random())
    return np.sign(rows * columns) * np.minimum(np.abs(rows), np.abs(columns))


def _dotted(u: Field, v: Field, rng: np.random.Generator) -> Field:
    pitch = 0.9 * _period(rng)
    row = v / pitch + rng.random()
    column = u / pitch + rng.random() + 0.5 * (np.floor(row) % 2)
    return pitch * (0.36 - np.hypot(column % 1.0 - 0.5, row % 1.0 - 0.5))


def _zigzag(u: Field, v: Field, rng: np.random.Generator) -> Field:
    period = 1.1 * _period(rng)
    chevron = np.abs((u / period * 0.8 + rng.random()) % 1.0 - 0.5) * period * 1.6
    # The bands run at a slope, so their true width is the vertical one over sqrt(1 + slope^2).
    return _bands(v + chevron, period, rng.random()) / np.float32(np.sqrt(1 + 1.28**2))


def _ringed(u: Field, v: Field, rng: np.random.Generator) -> Field:
    return _bands(np.hypot(u, v), 0.95 * _period(rng), rng.random())


def _rayed(u: Field, v: Field, rng: np.random.Generator) -> Field:
    period = 2 * np.pi / int(rng.integers(6, 9))
    return _bands(np.arctan2(v, u), period, rng.random()) * np.hypot(u, v)


def _period(rng: np.random.Generator) -> float:
    """Draw a period of 3.2 to 4.4 bands per diameter, in radii."""
    return 2.0 / rng.uniform(3.2, 4.4)


TEXTURES: dict[str, Callable[[Field, Field, np.random.Generator], Field]] = {
    "striped": _striped,
    "checked": _checked,
    "dotted": _dotted,
    "zigzag": _zigzag,
    "ringed": _ringed,
    "rayed": _rayed,
}


def texture_share(
    texture: str, u: Field, v: Field, *, radius_px: float, rng: np.random.Generator
) -> Field:
    """Draw the share [0, 1] of the second colour; ``radius_px`` sets the width of the borders."""
    slanted_u, slanted_v = turned(u, v, rng.uniform(-0.35, 0.35))
    distance = TEXTURES[texture](slanted_u, slanted_v, rng)
    return np.clip(0.5 + distance * np.float32(radius_px), 0.0, 1.0)


def _color(rng: np.random.Generator, luma: float) -> NDArray[np.float32]:
    """Draw a colour (3,) in [0, 255] of exactly the given luma and any hue and saturation."""
    direction = rng.standard_normal(3)
    direction -= _LUMA @ direction
    # Steps in this direction that take R, G and B to the end of their range.
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
