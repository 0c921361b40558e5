"""Look at a run: `report` and `visualize`."""

from collections.abc import Sequence

from ..console.options import Options, argument, option, optional, required
from ..console.paths import PICTURES
from ..console.progress import at_work
from ..console.wording import wrapped
from ..system.outputs import prepare_output, write_figure
from ._command import Command, Overwriting

_REPORT = """\
Say whether a run learned, and write a page about it.

Print what went wrong in a training and how to fix it; the exit code is 1 if something
did. Write RUN/report.html: recipe, curves, views, nearest photographs, time and memory.
Every training ends with this report.

examples:
  python -m mmssprl report work_dirs/pretrain_photos
  python -m mmssprl report work_dirs/pretrain_photos --images moved/photos
"""


class _Report(Options):
    work_dir: str = argument("work dir of the run")
    images: str | None = optional("folder or tar file, if they have moved since the run")


def _report(args: _Report) -> int:
    from ..reporting import make_report

    report = make_report(args.work_dir, images=args.images)
    print("\n".join([*map(wrapped, report.lines), f"report: {report.page}"]))
    return int(report.has_trouble)


_VISUALIZE = """\
Draw pictures: the views of an image, feature maps, or the paper's figures of a run.

Each picture has its own options: see `visualize PICTURE --help`.

examples:
  python -m mmssprl visualize views configs/ssprl/ssprl_resnet18_scenes.py photo.jpg views.png
  python -m mmssprl visualize features photos/ maps.png --weights a_backbone.pth random
  python -m mmssprl visualize figures work_dirs/photos figures.html
"""

_VIEWS = """\
All views of one image, before and after augmentation.

Draw, per scale, where the views are, what is cropped, and what the backbone sees.

example:
  python -m mmssprl visualize views configs/ssprl/ssprl_resnet18_scenes.py photo.jpg views.png
"""

_FEATURES = """\
What backbones see where in some images.

Draw the feature maps of six images: three principal components as colours.

example:
  python -m mmssprl visualize features photos/ maps.png --weights a_backbone.pth random
"""
_FIGURES = """\
Figures 1 to 3 of the paper, of a run, on one page.

Draw how the method computes its losses from an image, a map of the prototypes of each
scale, and a prototype with its parts; for SS-PRL and SwAV.

example:
  python -m mmssprl visualize figures work_dirs/photos figures.html
"""


_KINDS = "picture to write, .png, .svg or .pdf"


class _Views(Overwriting):
    config: str = argument("pre-training config")
    image: str = argument("image file")
    out: str = argument(_KINDS)


class _Features(Overwriting):
    images: str = argument("folder, tar file or image")
    weights: Sequence[str] = required("backbones, or `random`")
    image_px: int = option("side of the images; more pixels give a finer map", default=448, least=1)
    out: str = argument(_KINDS)


class _Figures(Overwriting):
    work_dir: str = argument("work dir of the run")
    images: str | None = option("folder or tar file", chosen="those of the run")
    out: str = argument("page to write, .html")


def _visualize(args: _Views | _Features) -> None:
    prepare_output(args.out, *PICTURES, overwrite=args.overwrite)

    from ..reporting import pictures as draw

    with at_work("drawing"):
        if isinstance(args, _Views):
            figure = draw.draw_views(args.config, args.image)
        else:
            figure = draw.draw_feature_maps(args.weights, args.images, image_px=args.image_px)
        write_figure(args.out, figure)
    print(f"picture: {args.out}")


def _figures(args: _Figures) -> None:
    from ..reporting import write_figures

    with at_work("drawing"):
        write_figures(args.work_dir, args.out, images=args.images, overwrite=args.overwrite)
    print(f"page: {args.out}")


_PICTURES = {
    "views": Command(_VIEWS, _Views, _visualize),
    "features": Command(_FEATURES, _Features, _visualize),
    "figures": Command(_FIGURES, _Figures, _figures),
}
COMMANDS = {
    "report": Command(_REPORT, _Report, _report),
    "visualize": Command(_VISUALIZE, _PICTURES),
}
