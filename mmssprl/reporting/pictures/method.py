"""SS-PRL (Fig. 1 of the paper) or SwAV as one picture, with a config's views and numbers."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from mmengine.config import Config
from torch import Tensor

from ...drawing.sheets import picture
from ...drawing.style import INK, MUTED, PYRAMIDS, own_style, titled_figure
from ...weights.backbone import build_model
from .views import DrawnSlot, cut_views, mosaic

_ROW = 2.1  # height of a scale, in the units of the drawing; a mosaic of patches is 1 unit high
_COLUMNS = {"image": 0.1, "views": 1.9, "backbone": 4.5, "head": 6.0, "prototypes": 7.4}
_OUTPUTS = 9.3
_CROSS = 12.2
_CODES = _OUTPUTS + 1.95  # right edge of the codes
_FILL = {"shared": "#eeeeee", "head": "#e5f2ec", "prototypes": "#ebe9f5", "cross": "#fdf0dc"}


def draw_method(cfg: Config, pixels: Tensor) -> Figure:
    """Draw how SS-PRL or SwAV makes its losses of an image (3, H, W), uint8 RGB."""
    slots = cut_views(cfg, pixels)  # the image views, small ones, then the levels
    built = build_model({"layout": cfg.model.layout, **cfg.model.head})  # with its defaults
    counts = [len(prototypes.weight) for prototypes in built.prototypes]
    height = _ROW * len(slots)
    middles = [height - _ROW * (row + 0.5) for row in range(len(slots))]
    num_cross = len(built.correlation)
    width = _CROSS + 0.6 * num_cross + 0.5 if num_cross else _CODES + 0.5

    with own_style(axes__grid=False):
        figure = titled_figure(width * 0.85, height * 0.85, "")
        axes = figure.add_subplot()
        axes.set(xlim=(0, width), ylim=(0, height), aspect="equal")
        axes.axis("off")
        _picture(axes, picture(pixels), _COLUMNS["image"], height / 2 - 0.7, 1.4)
        axes.text(0.8, height / 2 - 0.95, "image $x$", ha="center")
        for y in middles:
            _arrow(axes, (1.54, height / 2), (_COLUMNS["views"] - 0.04, y))
        text = "backbone\n$f_\\theta$\n\nshared"
        _box(axes, _COLUMNS["backbone"], 0.25, 1.05, height - 0.5, text, "shared")
        for drawn, y in zip(slots, middles, strict=True):
            _draw_scale(axes, drawn, y, counts[drawn.slot.scale])
        if num_cross:
            _draw_cross(axes, middles[0], middles[-num_cross:])
    return figure


def _draw_scale(axes: Axes, drawn: DrawnSlot, y: float, num_prototypes: int) -> None:
    _, views, backbone, head, prototypes = _COLUMNS.values()
    s = drawn.slot.scale
    text = f"s = {s}: {_what(drawn)} {drawn.cut.shape[2]} px"
    axes.text(views, y - 0.72, text, color=MUTED)
    _arrow(axes, (backbone + 1.05, y), (head, y))
    _box(axes, head, y - 0.35, 0.95, 0.7, f"head $h_{s}$", "head")
    _arrow(axes, (head + 0.95, y), (prototypes, y), f"$z_{s}$")
    text = f"prototypes\n$C_{s}$: {num_prototypes}"
    _box(axes, prototypes, y - 0.45, 1.3, 0.9, text, "prototypes")

    if drawn.slot.role == "small":
        _draw_small_views(axes, drawn, y)
    else:
        _draw_two_views(axes, drawn, y)


def _what(drawn: DrawnSlot) -> str:
    """Return what the crops of a scale are, before their size."""
    if drawn.slot.role == "small":
        return f"{drawn.slot.num_views} small views of"
    if drawn.level is None:
        return "the image at"
    num = drawn.slot.num_patches
    return "1 patch of" if num == 1 else f"{num} patches of"


def _draw_small_views(axes: Axes, drawn: DrawnSlot, y: float) -> None:
    """Draw small views. They predict the codes of the image views, and have none."""
    _, views, backbone, _, prototypes = _COLUMNS.values()
    tiles = mosaic(drawn.augmented[:, 0], math.ceil(drawn.slot.num_views / 2))
    aspect = tiles.shape[1] / tiles.shape[0]
    _picture(axes, tiles, views, y - 0.5, 1.0, width=aspect)
    _arrow(axes, (views + aspect + 0.04, y), (backbone, y))
    _arrow(axes, (prototypes + 1.3, y), (_OUTPUTS - 0.1, y))
    axes.text(_OUTPUTS, y, f"$p_{drawn.slot.scale}$ of each", va="center")
    start = (_OUTPUTS + 0.9, y)
    for code in (0.45, -0.45):  # of the image views, in the row above
        _elbow(axes, start, (_CODES, y + _ROW + code), _CODES + 0.4)


def _draw_two_views(axes: Axes, drawn: DrawnSlot, y: float) -> None:
    """Draw both views of an image or its patches. Each predicts the codes of the other."""
    _, views, backbone, _, prototypes = _COLUMNS.values()
    s = drawn.slot.scale
    _arrow(axes, (views + 2.24, y), (backbone, y))
    for view, colour in enumerate(PYRAMIDS):
        prime = "'" * view
        x = views + 1.2 * view
        above = y + (-0.45 if view else 0.45)
        tiles = mosaic(drawn.augmented[view], math.ceil(drawn.slot.num_patches**0.5))
        _picture(axes, tiles, x, y - 0.5, 1.0, colour)
        axes.text(x, y + 0.58, f"$V{prime}_{s}$", color=colour)
        _arrow(axes, (prototypes + 1.3, y), (_OUTPUTS - 0.1, above), "", colour)
        axes.text(_OUTPUTS, above, f"$p{prime}_{s}$", color=colour, va="center")
        axes.text(_OUTPUTS + 1.5, above, f"$q{prime}_{s}$", color=colour, va="center")
        _arrow(axes, (_OUTPUTS + 0.4, above), (_OUTPUTS + 1.45, 2 * y - above), "", INK)
    axes.text(_OUTPUTS + 0.92, y + 0.62, "Eq. 2", ha="center", color=MUTED)
    axes.text(_OUTPUTS + 1.5, y - 0.8, "codes by Sinkhorn", ha="center", color=MUTED)


def _draw_cross(axes: Axes, top: float, levels: list[float]) -> None:
    """Draw Eq. 3: mean predictions of patches predict the image's codes, by the rows' middles."""
    for s, y in enumerate(levels, start=1):
        x = _CROSS + 0.6 * (s - 1)
        _box(axes, x, y - 0.35, 0.85, 0.7, f"$g_{s}$", "cross")
        _arrow(axes, (_OUTPUTS + 0.2, y), (x, y))
        axes.text(_CODES + 0.3, y + 0.08, f"$\\mu(P_{s})$", ha="center")
        for code in (0.45, -0.45):
            _elbow(axes, (x + 0.7, y + 0.35), (_CODES, top + code), x + 0.7)
    axes.text((_CODES + _CROSS + 0.7) / 2, top + 0.62, "Eq. 3", ha="center", color=MUTED)


def _box(axes: Axes, x: float, y: float, width: float, height: float, text: str, fill: str) -> None:
    style = "round,pad=0,rounding_size=0.1"
    colours: dict[str, Any] = {"facecolor": _FILL[fill], "edgecolor": MUTED}
    axes.add_patch(FancyBboxPatch((x, y), width, height, style, **colours))
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center")


def _elbow(axes: Axes, start: tuple[float, float], end: tuple[float, float], x: float) -> None:
    """Draw an arrow that leaves its start for ``x``, goes up there, and then to its end."""
    axes.plot([start[0], x, x], [start[1], start[1], end[1]], color=INK, linewidth=1)
    _arrow(axes, (x, end[1]), end, colour=INK)


def _arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    text: str = "",
    colour: str = MUTED,
) -> None:
    line: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 9, "color": colour}
    line |= {"shrinkA": 0, "shrinkB": 2}
    axes.annotate("", end, start, arrowprops=line)
    axes.text((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + 0.08, text, ha="center")


def _picture(
    axes: Axes,
    pixels: np.ndarray,
    x: float,
    y: float,
    side: float,
    colour: str = MUTED,
    width: float = 1.0,
) -> None:
    right = x + side * width
    axes.imshow(pixels, extent=(x, right, y, y + side), aspect="equal", zorder=2)
    frame = FancyBboxPatch((x, y), right - x, side, "square,pad=0.02", fill=False, ec=colour)
    frame.set(linewidth=1.5, zorder=3)
    axes.add_patch(frame)
