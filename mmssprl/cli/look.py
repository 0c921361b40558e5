"""Look at a run: `report` and `visualize`."""

import argparse

from ..console.quiet import quiet_console
from ..console.wording import wrapped
from ..system.outputs import prepare_picture, write_figure
from ._command import Command, add_command

_REPORT = """\
Say whether a run learned, and write a page about it.

Print what is wrong with a training and what helps, or that nothing is; the exit code is
1 if there is a trouble. Write RUN/report.html, which needs nothing else: the recipe with
its reasons, curves with those of healthy runs, views, nearest photographs and prototypes
of some images, time and memory, and the commands that come next. Every training does
this at its end; a run that was stopped can be reported as well.

examples:
  python -m mmssprl report work_dirs/pretrain_photos
  python -m mmssprl report work_dirs/pretrain_photos --images moved/photos
"""


def _add_report(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("work_dir", metavar="RUN", help="work dir of the run")
    add("--images", metavar="DIR", help="folder or tar file, if the images of the run have moved")


def _report(args: argparse.Namespace) -> int:
    with quiet_console():
        from ..reporting import make_report

        report = make_report(args.work_dir, images=args.images)
    print("\n".join([*map(wrapped, report.lines), f"report: {report.page}"]))
    return int(report.has_trouble)


_VISUALIZE = """\
Draw pictures: views, losses, prototypes, feature maps, or all of a run.

Draw the views of an image, the losses and prototypes of a run, or feature maps.

examples:
  python -m mmssprl visualize views configs/ssprl/ssprl_resnet18_scenes.py photo.jpg views.png
  python -m mmssprl visualize losses work_dirs/demo losses.png
  python -m mmssprl visualize all work_dirs/photos pictures.html
"""

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
band is that of small healthy runs.

example:
  python -m mmssprl visualize losses work_dirs/demo losses.png
"""

_PROTOTYPES = """\
What the prototypes of a run stand for.

Draw the image prototypes that most images choose, the images nearest to each, and the
patch prototypes that these images' patches choose most often, each with the patch
nearest to it; for SS-PRL and SwAV. With --prototype, draw one of them: its images with
their patches, and examples of the patch prototypes that these choose and that the
correlation learner weighs most (Fig. 3 of the paper).

examples:
  python -m mmssprl visualize prototypes work_dirs/photos parts.pdf --prototype 8 --scale 2
"""
_TSNE = """\
A map of all prototypes of a scale.

Draw the prototypes by t-SNE over their cosines (Fig. 2 of the paper): a dot's area is its
use, and some that lie far from each other are shown beside their nearest neighbour.

example:
  python -m mmssprl visualize tsne work_dirs/photos map.pdf --scale 1
"""
_FEATURES = """\
What backbones see where in some images.

Draw the feature maps of the first six images: three principal components as colours, and
the cosine of each cell with a place in the first image.

example:
  python -m mmssprl visualize features photos/ maps.png --weights a_backbone.pth random
"""
_ALL = """\
Every picture of a run on one page.

Draw all that `visualize` can draw of a run, and write one page that needs no network.

example:
  python -m mmssprl visualize all work_dirs/photos pictures.html
"""

_METHOD = """\
How SS-PRL makes its losses of an image.

Draw the views of an image, the heads, prototypes, codes and correlation learners of a
config: Fig. 1 of the paper with your own numbers.

example:
  python -m mmssprl visualize method configs/ssprl/ssprl_resnet18_scenes.py photo.jpg method.svg
"""


def _add_visualize(parser: argparse.ArgumentParser) -> None:
    texts = {
        **{"views": _VIEWS, "method": _METHOD, "losses": _LOSSES, "prototypes": _PROTOTYPES},
        **{"tsne": _TSNE, "features": _FEATURES, "all": _ALL},
    }
    group = parser.add_subparsers(
        title="pictures", dest="picture", metavar="PICTURE", required=True
    )
    pictures = {name: add_command(group, name, text) for name, text in texts.items()}
    for name in ("views", "method"):
        add = pictures[name].add_argument
        add("config", metavar="CONFIG", help="pre-training config")
        add("image", metavar="IMAGE", help="image file")
        add("--seed", type=int, default=0, help="seed of crops and colours (default: 0)")
    for name in ("losses", "prototypes", "tsne", "all"):
        pictures[name].add_argument("work_dir", metavar="WORK_DIR", help="work dir of the run")
    add = pictures["prototypes"].add_argument
    add("--prototype", type=int, metavar="K", help="number of one prototype")
    add("--scale", type=int, default=1, help="scale of its patches (default: 1)")
    add = pictures["tsne"].add_argument
    add("--scale", type=int, default=0, help="0 for the image (default), or a level")
    add("--seed", type=int, default=0, help="seed of t-SNE (default: 0)")
    add = pictures["features"].add_argument
    px = "side of the images (default: twice that of the training)"
    place = "place in the first image, from 0 to 1 (default: its centre)"
    add("images", metavar="IMAGES", help="folder, tar file or image")
    add("--weights", nargs="+", required=True, metavar="WEIGHTS", help="backbones, or `random`")
    add("--image-px", type=int, help=px)
    add("--patch", type=float, nargs=2, default=(0.5, 0.5), metavar=("X", "Y"), help=place)
    for name, picture in pictures.items():
        add = picture.add_argument
        if name in ("prototypes", "tsne", "all"):
            add("--images", metavar="DIR", help="folder or tar file (default: those of the run)")
        kinds = ".html" if name == "all" else ".png, .svg or .pdf"
        add("out", metavar="OUT", help=f"picture to write, {kinds}")
        add("--overwrite", action="store_true", help="replace an existing picture")


def _visualize(args: argparse.Namespace) -> int:
    if args.picture == "all":
        from ..reporting import write_pictures

        num = write_pictures(args.work_dir, args.out, images=args.images, overwrite=args.overwrite)
        print(f"page: {args.out}, {num} pictures")
        return 0
    prepare_picture(args.out, overwrite=args.overwrite)

    from .. import visualization as draw

    if args.picture == "views":
        figure = draw.draw_views(args.config, args.image, seed=args.seed)
    elif args.picture == "method":
        figure = draw.draw_method(args.config, args.image, seed=args.seed)
    elif args.picture == "losses":
        figure = draw.draw_losses(args.work_dir)
    elif args.picture == "features":
        px, place = args.image_px, tuple(args.patch)
        figure = draw.draw_feature_maps(args.weights, args.images, image_px=px, patch=place)
    else:
        found = draw.Assignments.of_run(args.work_dir, args.images)
        if args.picture == "tsne":
            figure = draw.draw_prototype_map(found, scale=args.scale, seed=args.seed)
        elif args.prototype is None:
            figure = draw.draw_prototypes(found)
        else:
            figure = draw.draw_prototype_parts(found, args.prototype, scale=args.scale)
    write_figure(args.out, figure)
    print(f"picture: {args.out}")
    return 0


COMMANDS = {
    "report": Command(_REPORT, _add_report, _report),
    "visualize": Command(_VISUALIZE, _add_visualize, _visualize),
}
