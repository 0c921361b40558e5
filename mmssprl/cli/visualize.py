"""Draw pictures: the views of an image, the losses of a run, its prototypes.

Draw the views of an image, or the losses or the prototypes of a run.

examples:
  python -m mmssprl visualize views configs/ssprl/ssprl_resnet18_scenes.py photo.jpg views.png
  python -m mmssprl visualize losses work_dirs/demo losses.png
  python -m mmssprl visualize prototypes work_dirs/photos prototypes.png
"""

import argparse

from ..system.outputs import prepare_picture, write_figure
from . import add_command

_VIEWS = """\
All views of one image, before and after augmentation.

Run the config's PyramidCrop and preprocessor on one image and draw, per scale,
where the views lie, what is cut, and what the backbone sees after augmentation.

example:
  python -m mmssprl visualize views configs/ssprl/ssprl_resnet18_scenes.py photo.jpg views.png
"""
_LOSSES = """\
The loss terms of a run.

Draw every loss term of a run against the step, divided by its weight, with ln K,
the value of a uniform prediction: a run that stays there has learned nothing. The
band is that of small healthy runs; `diagnose` says in words what it sees.

example:
  python -m mmssprl visualize losses work_dirs/demo losses.png
"""
_PROTOTYPES = """\
What the prototypes of a run stand for.

Draw the image prototypes that most images choose, the images nearest to each, and the
patch prototypes that these images' patches choose most often, each with the patch
nearest to it; for SS-PRL and SwAV.

example:
  python -m mmssprl visualize prototypes work_dirs/photos prototypes.png
"""


_METHOD = """\
How SS-PRL makes its losses of an image.

Draw the views of an image, the heads, prototypes, codes and correlation learners of a
config: Fig. 1 of the paper with your own numbers.

example:
  python -m mmssprl visualize method configs/ssprl/ssprl_resnet18_scenes.py photo.jpg method.svg
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the pictures and their arguments."""
    pictures = parser.add_subparsers(
        title="pictures", dest="picture", metavar="PICTURE", required=True
    )
    views = add_command(pictures, "views", _VIEWS)
    views.add_argument("config", metavar="CONFIG", help="pre-training config")
    views.add_argument("image", metavar="IMAGE", help="image file")
    views.add_argument("--seed", type=int, default=0, help="seed of crops and colours (default: 0)")
    method = add_command(pictures, "method", _METHOD)
    method.add_argument("config", metavar="CONFIG", help="pre-training config of SS-PRL")
    method.add_argument("image", metavar="IMAGE", help="image file")
    method.add_argument("--seed", type=int, default=0, help="seed of the crops (default: 0)")
    losses = add_command(pictures, "losses", _LOSSES)
    losses.add_argument("work_dir", metavar="WORK_DIR", help="work dir of the run")
    prototypes = add_command(pictures, "prototypes", _PROTOTYPES)
    prototypes.add_argument("work_dir", metavar="WORK_DIR", help="work dir of the run")
    prototypes.add_argument(
        "--images", metavar="DIR", help="folder or tar file (default: the images of the run)"
    )
    for picture in (views, method, losses, prototypes):
        picture.add_argument("out", metavar="OUT", help="picture to write, .png, .svg or .pdf")
        picture.add_argument("--force", action="store_true", help="replace an existing picture")


def run(args: argparse.Namespace) -> int:
    """Draw the picture and save it."""
    prepare_picture(args.out, force=args.force)

    from ..visualization import draw_losses, draw_method, draw_prototypes, draw_views

    if args.picture == "views":
        figure = draw_views(args.config, args.image, seed=args.seed)
    elif args.picture == "method":
        figure = draw_method(args.config, args.image, seed=args.seed)
    elif args.picture == "losses":
        figure = draw_losses(args.work_dir)
    else:
        figure = draw_prototypes(args.work_dir, args.images)
    write_figure(args.out, figure)
    print(f"picture: {args.out}")
    return 0
