"""A map of images by their features, with the densest and the loneliest of them.

Legend: N images.
"""

import matplotlib
from matplotlib.figure import Figure

from ..console.style import CATEGORIES, MUTED, RC, titled_figure
from ..features.contact_sheet import Tile, show_tiles
from ..features.embeddings import Embeddings
from ..features.extract import Images
from ..features.map_columns import project
from ..features.selection import densities, select

NUM_SHOWN = 5
_MAP_INCHES, _TILE_INCHES = 5.8, 1.15


def draw_image_map(found: Embeddings, images: Images) -> Figure:
    """Draw a dot for each image, near each other where their cosines are high.

    Beside the map stand the densest image of each of at most five clusters and as many of the least
    dense ones, as ``select`` chooses them, with the mean cosine to their 20 nearest.

    Args:
        found: Features of N of the images, at least two, and not of patches.
        images: Where they are.
    """
    num = min(NUM_SHOWN, len(found) // 2)
    row_of, place_of = ({name: i for i, name in enumerate(x.names)} for x in (found, images))
    places, density = project(found.features), densities(found.features)
    with matplotlib.rc_context({**RC, "axes.grid": False}):
        figure = titled_figure(
            _MAP_INCHES + 2 * _TILE_INCHES + 0.3,
            NUM_SHOWN * (_TILE_INCHES + 0.2),
            f"{len(found):,} images by their features: the densest (D), the loneliest (L)",
        )
        ratios = [_MAP_INCHES, 2 * _TILE_INCHES + 0.3]
        left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=ratios)[0]
        axes = left.subplots()
        dots = axes.scatter(*places.T, c=density, cmap="cividis", s=26, linewidths=0)
        axes.set_axis_off()
        axes.margins(0.1)
        bar = left.colorbar(dots, ax=axes, location="bottom", shrink=0.6, aspect=40, pad=0.02)
        bar.set_label("mean cosine to the 20 nearest images", color=MUTED)
        columns: list[list[Tile]] = []
        kinds = (("D", "typical", "right"), ("L", "outliers", "left"))
        for (letter, method, align), color in zip(kinds, CATEGORIES, strict=False):
            columns.append([])
            for each in select(found, num=num, method=method):  # type: ignore[arg-type]
                row, name = row_of[each.image], f"{letter}{each.rank}"
                words = f"{name}: {density[row]:.3f}"
                columns[-1].append(Tile(images, place_of[each.image], words, color))
                axes.scatter(*places[row], s=90, facecolors="none", edgecolors=color)
                style = {"ha": align, "color": color, "fontsize": 9, "fontweight": "bold"}
                axes.annotate(f" {name} ", places[row], **style)
        show_tiles(right.subplots(NUM_SHOWN, 2, squeeze=False).T, columns)
    return figure
