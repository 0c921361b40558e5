"""A sheet of photographs with a word above each: neighbours, or those that were chosen."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image, ImageOps

from ..console.style import MUTED, RC, titled_figure
from ..console.wording import printable
from ..datasets import ImageReadError
from ..datasets.channel_images import as_picture
from ..errors import UserValueError
from .extract import Images
from .neighbor_search import Neighbor
from .selection import Selected

MOST_ROWS, MOST_COLUMNS = 12, 8
_SIDE_INCHES = 1.35
_THUMBNAIL_PX = 200
_NAME_LENGTH = 20


class Tile(NamedTuple):
    """An image of the sheet; ``place`` is its index."""

    images: Images
    place: int
    words: str


def draw_neighbors(found: Sequence[Neighbor], queries: Images, images: Images) -> Figure:
    """Draw a row for each query, at most ``MOST_ROWS``."""
    query_at, image_at = (
        {path: index for index, path in enumerate(each.paths(each.names))}
        for each in (queries, images)
    )
    rows = [
        [Tile(queries, query_at[query], "query")]
        + [Tile(images, image_at[each.nearest], f"{each.cosine:.3f}") for each in row]
        for query, row in groupby(found, lambda neighbor: neighbor.query)
    ]
    part = f", first {MOST_ROWS} of {len(rows)} rows" if len(rows) > MOST_ROWS else ""
    return _draw(rows[:MOST_ROWS], f"nearest photographs and their cosines{part}")


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
        words = "kept" if is_grouped and each.keep else f"{each.cosine:.3f}"
        row = rows.setdefault(each.rank if is_grouped else (each.rank - 1) // MOST_COLUMNS, [])
        row.append(Tile(images, place[each.image], f"{each.rank}: {words}"))
    shown = [row[:MOST_COLUMNS] for row in list(rows.values())[:MOST_ROWS]]
    num = sum(map(len, shown))
    return _draw(shown, f"{method}: {num} of {len(found):,} images with their cosines")


def _draw(rows: Sequence[Sequence[Tile]], title: str) -> Figure:
    num_columns = max(map(len, rows))
    height = len(rows) * (_SIDE_INCHES + 0.42) + 0.4
    with matplotlib.rc_context(RC):
        figure = titled_figure(max(4.5, num_columns * _SIDE_INCHES), height, title)
        grid = figure.subplots(len(rows), num_columns, squeeze=False)
        for axes in grid.flat:
            axes.axis("off")
        for line, row in zip(grid, rows, strict=True):
            for axes, tile in zip(line, row, strict=False):
                _show(axes, tile)
    return figure


def _show(axes: Axes, tile: Tile) -> None:
    try:
        pixels = as_picture(tile.images.load(tile.place)).permute(1, 2, 0)  # (H, W, 3)
        square = (_THUMBNAIL_PX, _THUMBNAIL_PX)  # so that all rows are as high
        axes.imshow(ImageOps.pad(Image.fromarray(pixels.numpy()), square, color="white"))
    except ImageReadError:
        axes.text(0.5, 0.5, "unreadable", ha="center", transform=axes.transAxes)
    axes.set_title(tile.words, loc="center", fontsize=8, pad=2)
    name = tile.images.names[tile.place]
    name = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    short = name if len(name) <= _NAME_LENGTH else "..." + name[-_NAME_LENGTH + 3 :]
    # Names are no formulas: a dollar sign would begin one.
    style: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": 6, "color": MUTED}
    axes.text(0.5, -0.03, short, transform=axes.transAxes, parse_math=False, **style)
