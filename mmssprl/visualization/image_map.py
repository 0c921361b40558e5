"""A map of images by their features, with the densest and the loneliest of them.

Legend: N images.
"""

from collections.abc import Callable

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image, ImageOps
from torch import Tensor

from ..console.style import CATEGORIES, MUTED, RC, titled_figure
from ..features.embeddings import Embeddings
from ..features.map_columns import project
from ..features.selection import densities, select

NUM_SHOWN = 5
_MAP_INCHES, _TILE_INCHES = 5.8, 1.15
_THUMBNAIL_PX = 130


def draw_image_map(found: Embeddings, load: Callable[[str], Tensor]) -> Figure:
    """Draw a dot for each image, near each other where their cosines are high.

    Beside the map stand the densest image of each of at most five clusters and as many of the least
    dense ones, as ``select`` chooses them, with the mean cosine to their 20 nearest.

    Args:
        found: Their features, of at least two images and not of patches.
        load: Returns the image of a name, uint8 RGB (3, H, W).
    """
    num = min(NUM_SHOWN, len(found) // 2)
    row_of = {name: row for row, name in enumerate(found.names)}
    places, density = project(found.features), densities(found.features)
    with matplotlib.rc_context({**RC, "axes.grid": False}):
        figure = titled_figure(
            _MAP_INCHES + 2 * _TILE_INCHES + 0.3,
            NUM_SHOWN * (_TILE_INCHES + 0.08),
            f"{len(found):,} images by their features",
        )
        ratios = [_MAP_INCHES, 2 * _TILE_INCHES + 0.3]
        left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=ratios)[0]
        axes = left.subplots()
        dots = axes.scatter(
            places[:, 0], places[:, 1], c=density, cmap="cividis", s=26, linewidths=0
        )
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        axes.margins(0.1)
        bar = left.colorbar(dots, ax=axes, location="bottom", shrink=0.6, aspect=40, pad=0.02)
        bar.set_label("mean cosine to the 20 nearest images", color=MUTED)
        bar.outline.set_visible(False)
        grid = right.subplots(NUM_SHOWN, 2, squeeze=False)
        for tile in grid.flat:
            tile.axis("off")
        kinds = (
            ("densest", select(found, num=num, method="typical")),
            ("loneliest", select(found, num=num, method="outliers")),
        )
        for column, (word, chosen), color in zip(grid.T, kinds, CATEGORIES, strict=False):
            for tile, each in zip(column, chosen, strict=False):
                row, name = row_of[each.image], f"{word[0].upper()}{each.rank}"
                _mark(axes, places[row], name, color, side=1 if word == "loneliest" else -1)
                head = f"{word}\n" if each.rank == 1 else ""
                tile.set_title(f"{head}{name}: {density[row]:.3f}", color=color, fontsize=8, pad=2)
                pixels = load(each.image).permute(1, 2, 0).numpy()  # (H, W, 3)
                square = (_THUMBNAIL_PX, _THUMBNAIL_PX)
                tile.imshow(ImageOps.pad(Image.fromarray(pixels), square, color="white"))
    return figure


def _mark(axes: Axes, place: np.ndarray, name: str, color: str, *, side: int) -> None:
    """Ring a dot and write its name beside it, on white, at the right for a ``side`` of 1."""
    x, y = place
    axes.scatter(x, y, s=90, facecolors="none", edgecolors=color, linewidths=1.6)
    axes.annotate(
        name,
        (x, y),
        xytext=(6 * side, 5),
        ha="left" if side == 1 else "right",
        textcoords="offset points",
        color=color,
        fontsize=9,
        fontweight="bold",
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6},
    )
