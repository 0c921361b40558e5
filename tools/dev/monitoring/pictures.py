"""Draw what docs/troubleshooting.md shows: curves of a healthy run and of sick ones.

    python -m tools.dev.monitoring.pictures OUT

OUT is the folder of ``train``.
"""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from mmssprl.console.arguments import Parser
from mmssprl.console.style import PYRAMIDS
from mmssprl.monitoring import Record, band_of, read_scalars
from mmssprl.system.outputs import write_figure
from mmssprl.visualization.curves import CurvePanel, draw_panels

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
    rows = [[_panel(title, panel, records) for panel in _PANELS] for title, records in runs.items()]
    return draw_panels(rows, "share of the training")


def _panel(run: str, title: str, records: Sequence[Record]) -> CurvePanel:
    names, is_first = _PANELS[title], title == next(iter(_PANELS))
    progress = [record["progress"] for record in records]
    return CurvePanel(
        f"{run}: {title}" if is_first else title,
        {_LABELS.get(name, ""): (progress, [r[name] for r in records]) for name in names},
        PYRAMIDS,
        band=band_of(names[0]),
        level=1.0 if is_first else None,
        bottom=0,
        top=_TOPS.get(title, 1.05),
    )


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
