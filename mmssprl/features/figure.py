"""Rows of photographs: one that was asked for, and the nearest ones."""

from collections.abc import Sequence
from itertools import groupby

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image, ImageOps

from ..console.style import INK, MUTED, PYRAMIDS, RC, titled_figure
from ..datasets import ImageReadError
from .images import Images
from .neighbor_search import Neighbor

MOST_ROWS = 12
_SIDE_INCHES = 1.35
_THUMBNAIL_PX = 200
_NAME_LENGTH = 20


def draw_neighbors(found: Sequence[Neighbor], queries: Images, images: Images) -> Figure:
    """Draw a row for each query that has neighbours, at most ``MOST_ROWS``."""
    rows = [list(row) for _, row in groupby(found, lambda neighbor: neighbor.query)]
    shown = rows[:MOST_ROWS]
    query_at, image_at = (
        {path: index for index, path in enumerate(each.paths(each.names))}
        for each in (queries, images)
    )
    num_columns = 1 + max(map(len, shown))
    part = f", first {len(shown)} of {len(rows)} rows" if len(rows) > len(shown) else ""
    with matplotlib.rc_context(RC):
        figure = titled_figure(
            max(4.5, num_columns * _SIDE_INCHES),
            len(shown) * (_SIDE_INCHES + 0.42) + 0.4,
            f"nearest photographs and their cosines{part}",
        )
        grid = figure.subplots(len(shown), num_columns, squeeze=False)
        for axes in grid.flat:
            axes.axis("off")
        for line, row in zip(grid, shown, strict=True):
            _show(line[0], queries, query_at[row[0].query], "asked for", PYRAMIDS[1])
            for axes, neighbor in zip(line[1:], row, strict=False):
                index = image_at[neighbor.nearest]
                _show(axes, images, index, f"{neighbor.cosine:.3f}", INK)
    return figure


def _show(axes: Axes, images: Images, index: int, title: str, color: str) -> None:
    try:
        pixels = images.load(index).permute(1, 2, 0)  # (H, W, 3)
        square = (_THUMBNAIL_PX, _THUMBNAIL_PX)  # so that all rows are as high
        axes.imshow(ImageOps.pad(Image.fromarray(pixels.numpy()), square, color="white"))
    except ImageReadError:
        axes.text(0.5, 0.5, "unreadable", ha="center", transform=axes.transAxes)
    axes.set_title(title, color=color, loc="center", fontsize=8, pad=2)
    name = images.names[index].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
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
