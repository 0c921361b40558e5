"""A profile as two stacked bars: the step, and its loader beside it."""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from ..visualization.style import DPI, MUTED, RC
from .result import Profile

_COLOURS = matplotlib.colormaps["tab20"].colors  # type: ignore[attr-defined]  # pairs of shades
_FIRST_COLOUR = {"loader": 0, "step": 4}
_LABELLED_PERCENT = 4.0


def draw_profile(profile: Profile) -> Figure:
    """Draw the milliseconds of a step by phase, and the CPU milliseconds of loading its images."""
    bars = ("step", "loader")
    colours = {part: iter(_COLOURS[first:]) for part, first in _FIRST_COLOUR.items()}
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(8, 2.9), dpi=DPI, layout="constrained")
        axes = figure.subplots()
        left = dict.fromkeys(bars, 0.0)
        for row in profile.rows:
            axes.barh(
                bars.index(row.part),
                row.ms_per_step,
                left=left[row.part],
                color=next(colours[row.part]),
                label=row.name,
            )
            if row.percent >= _LABELLED_PERCENT and row.part == "step":
                middle = left[row.part] + row.ms_per_step / 2
                axes.text(middle, 0, f"{row.percent:.0f} %", ha="center", va="center", fontsize=7)
            left[row.part] += row.ms_per_step
        axes.set_yticks(range(len(bars)), ["step, wall", "loader, one core"])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"ms per step of {profile.setting.batch_size} images")
        axes.set_title(
            f"{profile.images_per_s:.3g} images/s, the loader needs {profile.cores_needed:.2g} "
            "cores"
        )
        figure.suptitle(Path(profile.setting.config).stem, x=0.01, ha="left", fontsize=11)
        figure.legend(
            *axes.get_legend_handles_labels(),
            loc="outside right center",
            frameon=False,
            fontsize=7,
            labelcolor=MUTED,
        )
    return figure
