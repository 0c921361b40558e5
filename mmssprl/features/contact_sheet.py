"""Rows of photographs with a word on each: neighbours, and images that were chosen."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image, ImageOps

from ..console.style import INK, MUTED, PYRAMIDS, RC, titled_figure
from ..console.wording import printable
from ..datasets import ImageReadError
from ..errors import UserValueError
from .extract import Images
from .neighbor_search import Neighbor
from .selection import Selected

MOST_ROWS, MOST_COLUMNS = 12, 8
_SIDE_INCHES = 1.35
_THUMBNAIL_PX = 200
_NAME_LENGTH = 20


class Tile(NamedTuple):
    """An image of the sheet; ``place`` is its index, ``color`` that of the words above it."""

    images: Images
    place: int
    words: str
    color: str = INK


def draw_neighbors(found: Sequence[Neighbor], queries: Images, images: Images) -> Figure:
    """Draw a row for each query that has neighbours, at most ``MOST_ROWS``."""
    rows = [list(row) for _, row in groupby(found, lambda neighbor: neighbor.query)]
    shown = rows[:MOST_ROWS]
    query_at, image_at = (
        {path: index for index, path in enumerate(each.paths(each.names))}
        for each in (queries, images)
    )
    part = f", first {len(shown)} of {len(rows)} rows" if len(rows) > len(shown) else ""
    tiles: list[list[Tile]] = []
    for row in shown:
        query = Tile(queries, query_at[row[0].query], "asked for", PYRAMIDS[1])
        near = [Tile(images, image_at[each.nearest], f"{each.cosine:.3f}") for each in row]
        tiles.append([query, *near])
    return _draw_rows(tiles, f"nearest photographs and their cosines{part}")


def draw_selected(found: Sequence[Selected], images: Images, method: str) -> Figure:
    """Draw the first images that ``select`` has chosen by a method, of duplicates a row a group.

    Raises:
        ValueError: One of them is not among the images.
    """
    index_of = {name: index for index, name in enumerate(images.names)}
    if gone := [each.image for each in found if each.image not in index_of]:
        raise UserValueError(
            f"images must be those of the embeddings, but {printable(gone[0])} is not among those "
            f"of {images.root}; give the folder that was embedded."
        )
    if method == "duplicates":
        rows = [list(row) for _, row in groupby(found, lambda each: each.rank)]
    else:
        starts = range(0, len(found), MOST_COLUMNS)
        rows = [list(found[start : start + MOST_COLUMNS]) for start in starts]
    shown = [row[:MOST_COLUMNS] for row in rows[:MOST_ROWS]]
    tiles: list[list[Tile]] = []
    for row in shown:
        tiles.append([])
        for each in row:
            is_kept = method == "duplicates" and each.keep
            words = "kept" if is_kept else f"{each.cosine:.3f}"
            number = "" if method == "duplicates" else f"{each.rank}: "
            color = PYRAMIDS[1] if is_kept else INK
            tiles[-1].append(Tile(images, index_of[each.image], number + words, color))
    num = sum(map(len, shown))
    part = f"first {num} of {len(found):,}" if num < len(found) else f"{num}"
    return _draw_rows(tiles, f"{method}: {part} images with their cosines")


def _draw_rows(rows: Sequence[Sequence[Tile]], title: str) -> Figure:
    num_columns = max(map(len, rows))
    with matplotlib.rc_context(RC):
        figure = titled_figure(
            max(4.5, num_columns * _SIDE_INCHES), len(rows) * (_SIDE_INCHES + 0.42) + 0.4, title
        )
        grid = figure.subplots(len(rows), num_columns, squeeze=False)
        for axes in grid.flat:
            axes.axis("off")
        for line, row in zip(grid, rows, strict=True):
            for axes, tile in zip(line, row, strict=False):
                _show(axes, tile)
    return figure


def _show(axes: Axes, tile: Tile) -> None:
    try:
        pixels = tile.images.load(tile.place).permute(1, 2, 0)  # (H, W, 3)
        square = (_THUMBNAIL_PX, _THUMBNAIL_PX)  # so that all rows are as high
        axes.imshow(ImageOps.pad(Image.fromarray(pixels.numpy()), square, color="white"))
    except ImageReadError:
        axes.text(0.5, 0.5, "unreadable", ha="center", transform=axes.transAxes)
    axes.set_title(tile.words, color=tile.color, loc="center", fontsize=8, pad=2)
    name = tile.images.names[tile.place]
    name = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    short = name if len(name) <= _NAME_LENGTH else "..." + name[-_NAME_LENGTH + 3 :]
    # Names are no formulas: a dollar sign would begin one.
    axes.text(
        *(0.5, -0.03, short),
        transform=axes.transAxes,
        ha="center",
        va="top",
        fontsize=6,
        color=MUTED,
        parse_math=False,
    )
