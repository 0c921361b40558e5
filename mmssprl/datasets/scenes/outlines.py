"""The outlines of the 12 shapes.

An outline is a list of contours, float64 arrays (N, 2) of (x, y) with y pointing down, filled by
the even-odd rule. Every outline fits the unit disc and touches it, so that twice the scale is the
object's diameter.
"""

import numpy as np
from numpy.typing import NDArray

Contour = NDArray[np.floating]

_ARC_POINTS = 48


def _polar(radii: float | Contour, angles: Contour) -> Contour:
    """Points at ``angles`` in radians, measured from straight up, clockwise."""
    return np.stack([radii * np.sin(angles), -radii * np.cos(angles)], axis=1)


def _turns(num: int) -> Contour:
    return np.arange(num) * (2 * np.pi / num)


def _mirrored(right: list[tuple[float, float]]) -> Contour:
    """Close a right half, listed from top to bottom, with its mirror image."""
    return np.array(right + [(-x, y) for x, y in reversed(right)])


def _star() -> Contour:
    return _polar(np.where(np.arange(10) % 2 == 0, 1.0, 0.45), _turns(10))


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
    "star": _unit(_star()),
    "ring": _unit(_polar(1.0, _turns(_ARC_POINTS)), _polar(0.42, _turns(_ARC_POINTS))),
    "cross": _unit(_cross()),
    "crescent": _unit(_crescent()),
    "heart": _unit(_heart()),
    "arrow": _unit(_mirrored([(0, -1), (0.9, -0.05), (0.38, -0.05), (0.38, 0.9)])),
    "hexagon": _unit(_polar(1.0, _turns(6))),
    "hourglass": _unit(_mirrored([(0.75, -0.9), (0.22, 0.0), (0.75, 0.9)])),
    "drop": _unit(_drop()),
}


def pose_outline(
    shape: str, *, angle: float, aspect: float
) -> tuple[list[Contour], NDArray[np.float64]]:
    """Stretch and turn an outline, keeping it in the unit disc and touching it.

    Args:
        shape: A key of ``OUTLINES``.
        angle: Clockwise rotation in radians.
        aspect: Width over height of the stretch applied before the rotation, > 0.

    Returns:
        The contours, and the matrix (2, 2) that takes posed points back to the upright,
        unstretched outline (``upright = matrix @ posed``), where textures are defined.
    """
    cos, sin = np.cos(angle), np.sin(angle)
    stretch = np.diag([np.sqrt(aspect), 1 / np.sqrt(aspect)])
    matrix = np.array([(cos, -sin), (sin, cos)]) @ stretch
    contours = [contour @ matrix.T for contour in OUTLINES[shape]]
    radius = max(float(np.linalg.norm(contour, axis=1).max()) for contour in contours)
    return [contour / radius for contour in contours], np.linalg.inv(matrix) * radius
