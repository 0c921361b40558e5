"""``python -m mmssprl visualize``: pictures of the views and of the losses."""

import argparse
from typing import TYPE_CHECKING, Any

from ..outputs import prepare_output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_VIEWS_EXAMPLE = """\
example:
  python -m mmssprl visualize views configs/ssprl/ssprl_resnet18_scenes.py photo.jpg views.png
"""
_LOSSES_EXAMPLE = """\
example:
  python -m mmssprl visualize losses work_dirs/demo losses.png
"""


def add_parser(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Register the command and its two pictures."""
    parser = subparsers.add_parser(
        "visualize",
        help="pictures: the pyramid of views of an image, the losses of a run",
        description="Draw the views of an image, or the losses of a run.",
        epilog=_VIEWS_EXAMPLE + _LOSSES_EXAMPLE.removeprefix("example:\n"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    pictures = parser.add_subparsers(title="pictures", metavar="PICTURE", required=True)
    views = pictures.add_parser(
        "views",
        help="all views of one image, before and after augmentation",
        description=(
            "Run the config's PyramidCrop and preprocessor on one image and draw, per scale,\n"
            "where the views lie, what is cut, and what the backbone sees after augmentation."
        ),
        epilog=_VIEWS_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    views.add_argument("config", metavar="CONFIG", help="pre-training config")
    views.add_argument("image", metavar="IMAGE", help="image file")
    views.add_argument("out", metavar="OUT", help="picture to write, .png or .pdf")
    views.add_argument("--seed", type=int, default=0, help="of crops and colours (default: 0)")
    views.add_argument("--force", action="store_true", help="replace an existing picture")
    views.set_defaults(run=run_views)
    losses = pictures.add_parser(
        "losses",
        help="the loss terms of a run",
        description=(
            "Draw every loss term of a run against the step, divided by its weight, with ln K,\n"
            "the value of a uniform prediction: a run that stays there has learned nothing."
        ),
        epilog=_LOSSES_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    losses.add_argument("work_dir", metavar="WORK_DIR", help="work dir of the run")
    losses.add_argument("out", metavar="OUT", help="picture to write, .png or .pdf")
    losses.add_argument("--force", action="store_true", help="replace an existing picture")
    losses.set_defaults(run=run_losses)


def run_views(args: argparse.Namespace) -> int:
    """Draw the views of one image."""
    prepare_output(args.out, force=args.force)

    from ..visualization import draw_views

    return _save(draw_views(args.config, args.image, seed=args.seed), args.out)


def run_losses(args: argparse.Namespace) -> int:
    """Draw the losses of one run."""
    prepare_output(args.out, force=args.force)

    from ..visualization import draw_losses

    return _save(draw_losses(args.work_dir), args.out)


def _save(figure: "Figure", out: str) -> int:
    figure.savefig(out)
    print(f"picture: {out}")
    return 0
