"""Colours and sizes of all pictures."""

from contextlib import AbstractContextManager
from typing import Any

from matplotlib import style
from matplotlib.figure import Figure

INK = "#222222"
MUTED = "#6b6b6b"
WRONG = "#b3261e"
PYRAMIDS = ("#1f6fb4", "#d95f02")
"""V and V'."""
SCALES = (*PYRAMIDS, "#1b9e77", "#7570b3")
"""The image and the levels, in one panel."""

CATEGORIES = ("#d95f02", "#1f6fb4", "#1b9e77", "#b0578d", "#8c6d00")
"""Categories in one picture, distinguishable with colour blindness."""
LEARNING_RATE = "#7a7a7a"
DPI = 150

_RC: dict[Any, Any] = {
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelcolor": MUTED,
    "axes.edgecolor": "#bdbdbd",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "text.color": INK,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
}


def own_style(**values: Any) -> AbstractContextManager[None]:
    """Draw and save in one style; a user's matplotlibrc and rcParams change no picture.

    ``values`` are more of matplotlib's parameters, with "__" for a dot.
    """
    more = {name.replace("__", "."): value for name, value in values.items()}
    return style.context(["default", {**_RC, **more}])


def titled_figure(width: float, height: float, title: str) -> Figure:
    """Return an empty figure, sizes in inches, with a title at the upper left."""
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    # A dollar sign in a file name does not start a formula.
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, parse_math=False)
    return figure
