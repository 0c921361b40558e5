"""Sheets of pictures with captions, in rows."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageOps
from torch import Tensor

from ..datasets.channel_images import as_picture
from .style import DPI, INK, MUTED, own_style, titled_figure

_SIDE_INCHES = 1.5


class Tile(NamedTuple):
    """A picture uint8 (H, W, 3), or None if unreadable, with words above and a name below."""

    picture: NDArray[np.uint8] | None
    words: str = ""
    name: str = ""
    colour: str = INK  # of the words


def picture(image: Tensor) -> NDArray[np.uint8]:
    """Return an image (C, H, W), or a crop of one, as a picture (H, W, 3)."""
    return as_picture(image).permute(1, 2, 0).numpy()


def outlined(
    pixels: NDArray[np.uint8], boxes: Iterable[Sequence[float]], colour: str, width: int = 0
) -> NDArray[np.uint8]:
    """Draw boxes (left, top, right, bottom) on a picture; ``width`` 0 depends on its size."""
    image = Image.fromarray(pixels)
    canvas = ImageDraw.Draw(image)
    for box in boxes:
        canvas.rectangle([*box], outline=colour, width=width or max(1, max(image.size) // 60))
    return np.asarray(image)


def spread(num: int, most: int) -> list[int]:
    """Return at most ``most`` evenly spaced indices of ``num``, with the first and the last."""
    return np.linspace(0, num - 1, min(num, most)).round().astype(int).tolist()


def draw_grid(
    rows: Sequence[Sequence[Tile]], title: str = "", *, side_inches: float = _SIDE_INCHES
) -> Figure:
    """Draw rows of pictures with equal longer sides."""
    height = side_inches * sum(map(_row_height, rows)) + sum(map(_words_inches, rows))
    height += 0.3 if title else 0.0
    with own_style():
        figure = titled_figure(max(4.5, max(map(len, rows)) * side_inches), height, title)
        fill_grid(figure, rows, side_inches)
    return figure


def fill_grid(figure: FigureBase, rows: Sequence[Sequence[Tile]], side_inches: float) -> None:
    """As ``draw_grid``, in an existing figure or subfigure."""
    heights = {"height_ratios": [*map(_row_height, rows)]}
    grid = figure.subplots(len(rows), max(map(len, rows)), squeeze=False, gridspec_kw=heights)
    for axes in grid.flat:
        axes.axis("off")
    for line, row in zip(grid, rows, strict=True):
        for axes, tile in zip(line, row, strict=False):
            _show(axes, tile, round(side_inches * DPI))


def _row_height(row: Sequence[Tile]) -> float:
    """Return the height of the tallest picture of a row in sides of a tile, at most 1."""
    sizes = [(1, 1) if tile.picture is None else tile.picture.shape[:2] for tile in row]
    return max((min(1.0, height / width) for height, width in sizes), default=1.0)


def _words_inches(row: Sequence[Tile]) -> float:
    """Return the height of the words above (8 points a line) and the names below a row."""
    lines = max(1 + tile.words.count("\n") + bool(tile.name) for tile in row)
    return 0.06 + 0.14 * lines


def _show(axes: Axes, tile: Tile, px: int) -> None:
    if tile.picture is None:
        axes.text(0.5, 0.5, "unreadable", ha="center", transform=axes.transAxes)
    else:
        axes.imshow(ImageOps.contain(Image.fromarray(tile.picture), (px, px)))
        axes.set_anchor("NW")  # words and name stay at the picture's own edges

    # A dollar sign in a name must not begin a formula.
    style: dict[str, Any] = {"parse_math": False, "loc": "left", "fontsize": 8, "pad": 3}
    axes.set_title(tile.words, color=tile.colour, **style)

    name = tile.name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    most = px // 11  # characters below a picture
    short = name if len(name) <= most else "..." + name[3 - most :]
    style = {"parse_math": False, "ha": "left", "va": "top", "fontsize": 8, "color": MUTED}
    axes.text(0, -0.03, short, transform=axes.transAxes, **style)
