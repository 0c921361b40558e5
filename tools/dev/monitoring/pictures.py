"""Draw what docs/troubleshooting.md shows: curves of a healthy run and of sick ones.

    python -m tools.dev.monitoring.pictures OUT

OUT is the folder of ``train``.
"""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mmssprl.console.arguments import Parser
from mmssprl.console.style import INK, MUTED, PYRAMIDS, RC, titled_figure
from mmssprl.monitoring import Record, band_of, read_scalars
from mmssprl.system.outputs import write_figure
from mmssprl.visualization.health import draw_band

_IMAGES = Path(__file__).parents[3] / "docs" / "images"
_PICTURES = {
    "curves_good_and_collapsed": {
        "healthy": "healthy_swav_scenes_256x16_seed0",
        "collapsed (weight decay 100)": "collapsed_decay_swav_scenes_256x8_seed0",
        "collapsed (lr 1.0)": "collapsed_lr_swav_scenes_256x8_seed0",
    },
    "curves_other_troubles": {
        "epsilon 10": "epsilon_swav_scenes_256x8_seed0",
        "3,000 prototypes": "prototypes_swav_scenes_256x8_seed0",
        "one image, 256 times": "identical_swav_scenes_256x8_seed0",
        "lr 1e-7": "at_chance_low_lr_swav_scenes_256x8_seed0",
    },
}
_PANELS = {
    "loss / ln K": ("relative_pyramid_s0",),
    "embedding spread": ("embedding_spread",),
    "effective rank": ("effective_rank",),
    "mean cosine": ("alignment", "alignment_others"),
    "shares of K": ("prototypes_in_use_s0", "code_perplexity_s0"),
}
_LABELS = {
    "alignment": "own view",
    "alignment_others": "other images' views",
    "prototypes_in_use_s0": "prototypes in use",
    "code_perplexity_s0": "code perplexity",
}
_TOPS = {"loss / ln K": 1.8, "effective rank": 40.0}


def draw(runs: dict[str, Sequence[Record]]) -> Figure:
    """Draw a row of panels for each run, over the share of the training."""
    with matplotlib.rc_context(RC):
        figure = titled_figure(2.5 * len(_PANELS), 1.8 * len(runs) + 0.6, "")
        grid = figure.subplots(len(runs), len(_PANELS), sharex=True, sharey="col", squeeze=False)
        for row, (title, records) in zip(grid, runs.items(), strict=True):
            for axes, (panel, names) in zip(row, _PANELS.items(), strict=True):
                _draw_panel(axes, records, names)
                axes.set_ylim(0, _TOPS.get(panel, 1.05))
                if axes in grid[0]:
                    axes.set_title(panel, fontsize=9)
                    if len(names) > 1:
                        axes.legend(loc="center right", fontsize=7, frameon=False)
            row[0].set_ylabel(title, color=INK)
            row[0].axhline(1, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        for axes in grid[-1]:
            axes.set_xlabel("share of the training")
    return figure


def _draw_panel(axes: Axes, records: Sequence[Record], names: Sequence[str]) -> None:
    for name, colour in zip(names, PYRAMIDS, strict=False):
        band = band_of(name)
        if band is not None:
            draw_band(axes, band)
        progress = [record["progress"] for record in records]
        values = [record[name] for record in records]
        axes.plot(progress, values, color=colour, linewidth=1.6, label=_LABELS.get(name))


def main() -> None:
    """Draw all pictures."""
    parser = Parser(description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of images and runs")
    folder = parser.parse_args().out / "runs"
    for name, runs in _PICTURES.items():
        path = _IMAGES / f"{name}.png"
        write_figure(path, draw({t: read_scalars(folder / run) for t, run in runs.items()}))
        print(f"picture: {path}")


if __name__ == "__main__":
    main()
