"""Photographs with a word on each: neighbours, those that were chosen, and a map of images."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image, ImageOps

from ..console.style import CATEGORIES, INK, MUTED, PYRAMIDS, RC, titled_figure
from ..console.wording import printable
from ..datasets import ImageReadError
from ..datasets.channel_images import as_picture
from ..errors import UserValueError
from .embeddings import Embeddings
from .extract import Images
from .map_columns import project
from .neighbor_search import Neighbor
from .selection import Selected, densities, select

MOST_ROWS, MOST_COLUMNS = 12, 8
_SIDE_INCHES = 1.35
_THUMBNAIL_PX = 200
_NAME_LENGTH = 20
NUM_SHOWN = 5
_MAP_INCHES, _TILE_INCHES = 5.8, 1.15


class Tile(NamedTuple):
    """An image of the sheet; ``place`` is its index, ``color`` that of the words above it."""

    images: Images
    place: int
    words: str
    color: str = INK


def draw_neighbors(found: Sequence[Neighbor], queries: Images, images: Images) -> Figure:
    """Draw a row for each query that has neighbours, at most ``MOST_ROWS``."""
    query_at, image_at = (
        {path: index for index, path in enumerate(each.paths(each.names))}
        for each in (queries, images)
    )
    rows = [
        [Tile(queries, query_at[query], "asked for", PYRAMIDS[1])]
        + [Tile(images, image_at[each.nearest], f"{each.cosine:.3f}") for each in row]
        for query, row in groupby(found, lambda neighbor: neighbor.query)
    ]
    part = f", first {MOST_ROWS} of {len(rows)} rows" if len(rows) > MOST_ROWS else ""
    return _draw_rows(rows[:MOST_ROWS], f"nearest photographs and their cosines{part}")


def draw_selected(found: Sequence[Selected], images: Images, method: str) -> Figure:
    """Draw the first images that ``select`` has chosen by a method, of duplicates a row a group."""
    place = {name: index for index, name in enumerate(images.names)}
    if gone := [each.image for each in found if each.image not in place]:
        raise UserValueError(
            f"images must be those of the embeddings, but {printable(gone[0])} is not among those "
            f"of {images.root}; give the folder that was embedded."
        )
    is_grouped = method == "duplicates"
    rows: dict[int, list[Tile]] = {}
    for each in found:
        is_kept = is_grouped and each.keep
        words = f"{each.rank}: " + ("kept" if is_kept else f"{each.cosine:.3f}")
        row = rows.setdefault(each.rank if is_grouped else (each.rank - 1) // MOST_COLUMNS, [])
        row.append(Tile(images, place[each.image], words, PYRAMIDS[1] if is_kept else INK))
    shown = [row[:MOST_COLUMNS] for row in list(rows.values())[:MOST_ROWS]]
    num = sum(map(len, shown))
    return _draw_rows(shown, f"{method}: {num} of {len(found):,} images with their cosines")


def _draw_rows(rows: Sequence[Sequence[Tile]], title: str) -> Figure:
    num_columns = max(map(len, rows))
    height = len(rows) * (_SIDE_INCHES + 0.42) + 0.4
    with matplotlib.rc_context(RC):
        figure = titled_figure(max(4.5, num_columns * _SIDE_INCHES), height, title)
        _show_tiles(figure.subplots(len(rows), num_columns, squeeze=False), rows)
    return figure


def _show_tiles(grid: np.ndarray, rows: Sequence[Sequence[Tile]]) -> None:
    for axes in grid.flat:
        axes.axis("off")
    for line, row in zip(grid, rows, strict=False):
        for axes, tile in zip(line, row, strict=False):
            _show(axes, tile)


def _show(axes: Axes, tile: Tile) -> None:
    try:
        pixels = as_picture(tile.images.load(tile.place)).permute(1, 2, 0)  # (H, W, 3)
        square = (_THUMBNAIL_PX, _THUMBNAIL_PX)  # so that all rows are as high
        axes.imshow(ImageOps.pad(Image.fromarray(pixels.numpy()), square, color="white"))
    except ImageReadError:
        axes.text(0.5, 0.5, "unreadable", ha="center", transform=axes.transAxes)
    axes.set_title(tile.words, color=tile.color, loc="center", fontsize=8, pad=2)
    name = tile.images.names[tile.place]
    name = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    short = name if len(name) <= _NAME_LENGTH else "..." + name[-_NAME_LENGTH + 3 :]
    # Names are no formulas: a dollar sign would begin one.
    style: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": 6, "color": MUTED}
    axes.text(0.5, -0.03, short, transform=axes.transAxes, parse_math=False, **style)


def draw_image_map(found: Embeddings, images: Images) -> Figure:
    """Draw a dot for each image, near each other where their cosines are high.

    Beside the map stand the densest image of each of at most five clusters and as many of the least
    dense ones, as ``select`` chooses them, with the mean cosine to their 20 nearest. The features
    are of at least two of the images, and not of patches.
    """
    num = min(NUM_SHOWN, len(found) // 2)
    row_of, place_of = ({name: i for i, name in enumerate(x.names)} for x in (found, images))
    places, density = project(found.features), densities(found.features)
    with matplotlib.rc_context({**RC, "axes.grid": False}):
        title = f"{len(found):,} images by their features: the densest (D), the loneliest (L)"
        ratios = [_MAP_INCHES, 2 * _TILE_INCHES + 0.3]
        figure = titled_figure(sum(ratios), NUM_SHOWN * (_TILE_INCHES + 0.2), title)
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
        _show_tiles(right.subplots(NUM_SHOWN, 2, squeeze=False).T, columns)
    return figure
