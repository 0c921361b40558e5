"""Where a crop was cut, seen in the crop: an image whose colours tell the place.

Red tells the column and green the row. A straight line through the levels of a crop gives its box,
to a tenth of a pixel, whoever cut it.

Legend: px side of a crop, H, W height and width of an image.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mmssprl.pyramid import NUM_PYRAMIDS

from . import loaders

SMALL = replace(
    loaders.RELEASED,
    image_px=56,
    small_px=24,
    levels=tuple(
        replace(level, resize_px=level.resize_px // 4, patch_px=level.patch_px // 4)
        for level in loaders.RELEASED.levels
    ),
)
"""The released layout with a quarter of the pixels per side: its areas, grids and numbers."""

_SIZE = (240, 320)


def coordinate_image(height: int, width: int) -> np.ndarray:
    """Return (H, W, 3) uint8 whose red grows by the column and green by the row, 0 to 255.

    Noise rounds each pixel up or down at random, so that means over a crop have no rounding error.
    """
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:height, :width]
    red, green = x * (255 / (width - 1)), y * (255 / (height - 1))
    exact = np.stack([red, green, np.zeros_like(red)], -1)
    return np.floor(exact + rng.random(exact.shape) * (exact < 255)).astype(np.uint8)


def find_box(crop: np.ndarray, height: int, width: int) -> tuple[float, float, float, float]:
    """Find top, left, height and width of a crop of a coordinate image (H, W, 3), in pixels.

    The crop is (px, px, 3) in levels, resized or not, neither flipped nor recoloured.
    """
    px = len(crop)
    # The filter of a resize bends the ramp at the borders.
    inner = np.arange(px)[px // 5 : px - px // 5]
    top, box_height = _fit(inner, crop[inner, :, 1].mean(1), px, height)
    left, box_width = _fit(inner, crop[:, inner, 0].mean(0), px, width)
    return top, left, box_height, box_width


def boxes(cut: Callable[[np.ndarray], list[np.ndarray]], num_images: int) -> dict[str, np.ndarray]:
    """Measure where a loader cuts: one crop of each kind per image, and both views of a cell.

    ``cut`` makes of an image (H, W, 3) the 34 crops of ``SMALL``, in the order of ``loaders``.

    Raises:
        RuntimeError: The two views of a patch do not lie in one cell.
    """
    image = coordinate_image(*_SIZE)
    found: dict[str, list[float]] = {}
    first = NUM_PYRAMIDS + SMALL.num_small
    for _ in range(num_images):
        crops = cut(image)
        places = {"image": 0, "small": NUM_PYRAMIDS}
        start = first
        for scale, level in enumerate(SMALL.levels, start=1):
            name = f"patch {scale}"
            places[name] = start
            one, two = (
                find_box(crops[start + view * level.num_patches], *_SIZE) for view in (0, 1)
            )
            for i, axis in enumerate("yx"):
                shift = (two[i] - one[i]) / one[2 + i] * level.patch_px
                _require_one_cell(name, shift, level.cell_px - level.patch_px)
                found.setdefault(f"{name}, shift in {axis}", []).append(shift)
            start += NUM_PYRAMIDS * level.num_patches
        for name, place in places.items():
            top, left, height, width = find_box(crops[place], *_SIZE)
            for quantity, value in {
                "area": height * width / (_SIZE[0] * _SIZE[1]),
                "aspect": width / height,
                "centre in y": (top + height / 2) / _SIZE[0],
                "centre in x": (left + width / 2) / _SIZE[1],
            }.items():
                found.setdefault(f"{name}, {quantity}", []).append(value)
    return {name: np.array(values) for name, values in found.items()}


def _require_one_cell(name: str, shift: float, slack: int) -> None:
    if abs(shift) > slack + 0.5:
        raise RuntimeError(
            f"{name}: both views of a patch must lie in one cell, at most {slack} px apart, but "
            f"are {shift:.1f} px apart; mend the loader."
        )


def _fit(inner: np.ndarray, profile: np.ndarray, px: int, size: int) -> tuple[float, float]:
    """Return start and length in pixels of the crop whose mean levels along an axis are given."""
    slope, level = np.polyfit(inner, profile * ((size - 1) / 255), 1)
    # Pixel j of the crop shows start + (j + 0.5) length / px - 0.5.
    return float(level - slope / 2 + 0.5), float(slope * px)
