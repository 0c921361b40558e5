"""Rows of photographs: one that was asked for, and the nearest ones."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image, ImageOps

from ..console.style import INK, MUTED, PYRAMIDS, RC, titled_figure
from ..datasets import ImageReadError
from .images import Images
from .neighbors import Neighbor

MOST_ROWS = 12
_SIDE_INCHES = 1.35
_THUMBNAIL_PX = 200
_NAME_LENGTH = 20


def draw_neighbors(rows: Sequence[Sequence[Neighbor]], queries: Images, images: Images) -> Figure:
    """Draw a row for each query that has neighbours, at most ``MOST_ROWS``.

    Args:
        rows: Of ``find_neighbors``.
        queries: Where the queries are read.
        images: Where their neighbours are read.
    """
    found = [row for row in rows if row]
    shown = found[:MOST_ROWS]
    num_columns = 1 + max((len(row) for row in shown), default=0)
    with matplotlib.rc_context(RC):
        height = max(1, len(shown)) * (_SIDE_INCHES + 0.42) + 0.4
        part = f", first {len(shown)} of {len(found)} rows" if len(found) > len(shown) else ""
        title = f"nearest photographs and their cosines{part}"
        figure = titled_figure(max(4.5, num_columns * _SIDE_INCHES), height, title)
        grid = figure.subplots(max(1, len(shown)), num_columns, squeeze=False)
        for axes in grid.flat:
            axes.axis("off")
        for line, row in zip(grid, shown, strict=False):
            _show(line[0], queries, row[0].query, "asked for", PYRAMIDS[1])
            for axes, neighbor in zip(line[1:], row, strict=False):
                _show(axes, images, neighbor.path, f"{neighbor.similarity:.3f}", INK)
    return figure


def _show(axes: Axes, images: Images, path: str, title: str, color: str) -> None:
    name = str(Path(path).relative_to(images.root.resolve()))
    try:
        pixels = images.load(images.names.index(name)).permute(1, 2, 0)  # (H, W, 3)
        square = (_THUMBNAIL_PX, _THUMBNAIL_PX)  # so that all rows are as high
        axes.imshow(ImageOps.pad(Image.fromarray(pixels.numpy()), square, color="white"))
    except ImageReadError:
        axes.text(0.5, 0.5, "unreadable", ha="center", transform=axes.transAxes)
    axes.set_title(title, color=color, loc="center", fontsize=8, pad=2)
    name = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")  # fonts want text
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
