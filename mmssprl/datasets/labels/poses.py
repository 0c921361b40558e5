"""Tell YOLO's lines of poses, a box and its points, from polygons.

Legend: N lines, K points per line.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

NUM_BOX = 5
"""Numbers of the class and the box at the start of a line."""
_LEAST = NUM_BOX + 2
_VISIBILITIES = (0, 1, 2)
_SLACK = 1.05
"""Half sides within which the points of a box are: annotators draw them on its edge."""
_BEYOND = 0.01
"""Fraction of the image by which rounding may move a point."""
_LEAST_SPREAD = 0.1
"""Least fraction of its box that the points of a pose cover. Small polygons cover less."""
_FAR = 2
"""Sizes of a polygon within which its second corner, read as the sides of a box, is near it."""


def are_poses(lines: Sequence[str]) -> bool:
    """Whether all lines have one count, and the first four numbers, as a box, hold each point.

    Points are x and y, or x, y and visibility; those at 0, 0 are unknown.
    """
    count = len(lines[0].split()) if lines else 0
    if count < _LEAST or any(len(line.split()) != count for line in lines):
        return False
    try:
        values = np.array([line.split() for line in lines], np.float64)
    except ValueError:
        return False

    boxes = values[:, 1:NUM_BOX]
    reach = np.abs(boxes[:, :2] - 0.5) + boxes[:, 2:] / 2
    if not (boxes > 0).all() or reach.max() > 0.5 + _BEYOND:
        return False

    rest = values[:, NUM_BOX:]
    sizes = [size for size in (2, 3) if rest.shape[1] % size == 0]
    return any(_holds(boxes, rest.reshape(len(rest), -1, size)) for size in sizes)


def _holds(boxes: NDArray[np.float64], points: NDArray[np.float64]) -> bool:
    """Whether boxes (N, 4) hold the points (N, K, 2 or 3) of poses."""
    centre = boxes[:, None, :2]
    sides = boxes[:, None, 2:]
    known = points[..., :2].any(-1, keepdims=True)
    away = np.abs(points[..., :2] - centre) * known
    if (away > sides / 2 * _SLACK + _BEYOND).any() or not known.any():
        return False
    if points.shape[2] > 2:
        return bool(np.isin(points[..., 2], _VISIBILITIES).all())

    # The corners of a small polygon are near each other, so that its first two corners, read as a
    # box, hold the others. But then they are near the second one, and cover little of that box.
    placed = np.where(known, points, centre)
    covered = (np.ptp(placed, 1, keepdims=True) / sides).prod(-1)
    corners = np.concatenate([placed, centre], 1)
    low = corners.min(1, keepdims=True)
    high = corners.max(1, keepdims=True)
    distance = np.maximum(sides - high, low - sides).max(-1)
    is_far = distance > _FAR * (high - low).max(-1)
    return bool(((covered >= _LEAST_SPREAD) | is_far).mean() > 0.5)
