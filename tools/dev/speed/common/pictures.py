"""The speed of the loaders as bars that can be read without the gates."""

from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mmssprl.console.style import DPI, INK, MUTED, PYRAMIDS, RC

from .gates import Row

_LOADERS = {
    "torchvision": "Released recipe's loader\n(torchvision and PIL)",
    "mmpretrain": "mmpretrain's\nMultiView pipeline",
    "ours": "mmssprl, crops only\n(colours change on the device)",
    "ours_cpu": "mmssprl,\nall work on the CPU",
}
"""Side -> label; the row of a side is ``SIDE_34_ms``."""

_OTHERS = "#a9b4bf"


def draw_loaders(rows: Sequence[Row], *, caption: str) -> Figure | None:
    """Draw CPU time per image and images per second of the loaders, for 34 crops.

    None if one of their rows is missing. The caption tells which machine and images.
    """
    found = {row.id: row.value for row in rows}
    wanted = [*(f"{side}_34_ms" for side in _LOADERS), "decode_ms"]
    if not {*wanted} <= found.keys():
        return None
    *per_image, decoding = (found[row_id] for row_id in wanted)
    panels = {
        "CPU time per image, ms (shorter is better)": (per_image, decoding),
        "Images per second and core (longer is better)": (
            [1000 / value for value in per_image],
            1000 / decoding,
        ),
    }
    labels = list(_LOADERS.values())
    colors = [PYRAMIDS[0] if side.startswith("ours") else _OTHERS for side in _LOADERS]
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(10, 3.4), dpi=DPI, layout="constrained")
        subplots = figure.subplots(1, 2, sharey=True)
        for axes, (title, (values, best)) in zip(subplots, panels.items(), strict=True):
            _bars(axes, labels, values, colors)
            _line(axes, best, "decoding alone")
            axes.set_title(title)
        figure.suptitle(
            "Loading one image as 34 crops: 2 x 224, 6 x 96 and 26 patches", x=0.01, ha="left"
        )
        figure.supxlabel(caption, x=0.01, ha="left", fontsize=8, color=MUTED)
    return figure


def _bars(
    axes: Axes, labels: Sequence[str], values: Sequence[float], colors: Sequence[str]
) -> None:
    places = range(len(values))
    bars = axes.barh(places, values, height=0.62, color=colors)
    axes.bar_label(bars, [f"{value:.3g}" for value in values], padding=4, color=INK)
    axes.set_yticks(places, labels)
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.set_xlim(0, 1.14 * max(values))
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.grid(visible=False, axis="y")


def _line(axes: Axes, value: float, label: str) -> None:
    """Mark the best that a loader could reach, inside the range of the axis."""
    axes.axvline(value, color=PYRAMIDS[1], linewidth=1.5)
    high = max(axes.get_xlim()[1], 1.14 * value)
    axes.set_xlim(0, high)
    left = value > high / 2
    axes.annotate(
        f"{label}: {value:.3g}",
        (value, 1),
        xycoords=("data", "axes fraction"),
        xytext=(-4 if left else 4, -9),
        textcoords="offset points",
        ha="right" if left else "left",
        color=PYRAMIDS[1],
    )
