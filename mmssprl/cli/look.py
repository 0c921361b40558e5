"""Look at a run: `report` and `visualize`."""

from collections.abc import Sequence

from ..config.shipped import check_config
from ..console.live_line import at_work
from ..console.options import argument, option, optional, required
from ..console.paths import PICTURES, check_image, check_image_source, check_images, check_run
from ..console.wording import wrapped
from ..system.outputs import prepare_output, write_figure
from ..weights.sources import check_weights
from ._command import Command, Overwriting

_KINDS = "picture to write, .png, .svg or .pdf"


class ReportCommand(Command):
    """Say whether a run learned, and write a page about it.

    Print what went wrong in a training and how to fix it; the exit code is 1 if something
    did. Write RUN/report.html: recipe, curves, views, nearest photographs, time and memory.
    Every training ends with this report.

    examples:
      python -m mmssprl report work_dirs/pretrain_photos
      python -m mmssprl report work_dirs/pretrain_photos --images moved/photos
    """

    work_dir: str = argument("work dir of the run", check_run)
    images: str | None = optional(
        "folder or tar file, if they have moved since the run", check_image_source
    )

    def run(self) -> int:
        """Write the page."""
        from ..reporting import make_report

        report = make_report(self.work_dir, images=self.images)
        print("\n".join([*map(wrapped, report.lines), f"report: {report.page}"]))
        return int(report.has_trouble)


class ViewsCommand(Overwriting):
    """All views of one image, before and after augmentation.

    Draw, per scale, where the views are, what is cropped, and what the backbone sees.

    example:
      python -m mmssprl visualize views configs/ssprl/ssprl_resnet18_scenes.py photo.jpg views.png
    """

    config: str = argument("pre-training config", check_config)
    image: str = argument("image file", check_image)
    out: str = argument(_KINDS)

    def run(self) -> None:
        """Draw the views."""
        prepare_output(self.out, *PICTURES, overwrite=self.overwrite)
        with at_work("drawing"):
            from ..reporting.pictures import draw_views

            write_figure(self.out, draw_views(self.config, self.image))
        print(f"picture: {self.out}")


class FeaturesCommand(Overwriting):
    """What backbones see where in some images.

    Draw the feature maps of six images: three principal components as colours.

    example:
      python -m mmssprl visualize features photos/ maps.png --weights a_backbone.pth random
    """

    images: str = argument("folder, tar file or image", check_images)
    weights: Sequence[str] = required("backbones, or `random`", check_weights)
    image_px: int = option("side of the images; more pixels give a finer map", default=448, least=1)
    out: str = argument(_KINDS)

    def run(self) -> None:
        """Draw the feature maps."""
        prepare_output(self.out, *PICTURES, overwrite=self.overwrite)
        with at_work("drawing"):
            from ..reporting.pictures import draw_feature_maps

            figure = draw_feature_maps(self.weights, self.images, image_px=self.image_px)
            write_figure(self.out, figure)
        print(f"picture: {self.out}")


class FiguresCommand(Overwriting):
    """Figures 1 to 3 of the paper, of a run, on one page.

    Draw how the method computes its losses from an image, a map of the prototypes of each
    scale, and a prototype with its parts; for SS-PRL and SwAV.

    example:
      python -m mmssprl visualize figures work_dirs/photos figures.html
    """

    work_dir: str = argument("work dir of the run", check_run)
    images: str | None = option(
        "folder or tar file", chosen="the images of the run", check=check_image_source
    )
    out: str = argument("page to write, .html")

    def run(self) -> None:
        """Write the page."""
        from ..reporting import write_figures

        with at_work("drawing"):
            write_figures(self.work_dir, self.out, images=self.images, overwrite=self.overwrite)
        print(f"page: {self.out}")


class VisualizeCommand(Command):
    """Draw pictures: the views of an image, feature maps, or the paper's figures of a run.

    Each picture has its own options: see `visualize PICTURE --help`.

    example:
      python -m mmssprl visualize figures work_dirs/photos figures.html
    """

    subcommands = (ViewsCommand, FeaturesCommand, FiguresCommand)
