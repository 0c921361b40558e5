"""All pictures of a pre-training on one page."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from ..datasets import UnlabeledImages
from ..system.outputs import prepare_output
from ..visualization.assignments import Assignments, run_images
from ..visualization.curves import draw_health, draw_losses
from ..visualization.feature_maps import draw_feature_maps
from ..visualization.method import draw_method
from ..visualization.prototype_map import draw_prototype_map
from ..visualization.prototypes import draw_prototype_parts, draw_prototypes
from ..visualization.views import draw_views
from .page import attempted, figure_uri, write_page
from .run import PretrainingRun, read_run


def write_pictures(
    work_dir: str | Path,
    out: str | Path,
    *,
    images: str | Path | None = None,
    overwrite: bool = False,
) -> int:
    """Write a page with every picture that ``visualize`` can draw of a run.

    Arguments and errors are those of ``write_report``; how many pictures are on it is returned.
    """
    run = read_run(work_dir)
    prepare_output(out, overwrite=overwrite)
    everything = run_images(run.cfg, images)
    pictures = []
    left_out: list[tuple[str, str]] = []
    for title, draw in _pictures(run, everything):
        figure = attempted(left_out, title, draw)
        if figure is not None:
            pictures.append((title, figure_uri(figure, "svg")))
    write_page(
        Path(out),
        "pictures.html",
        name=run.work_dir.name,
        num_images=len(everything),
        pictures=pictures,
        left_out=left_out,
    )
    return len(pictures)


def _pictures(
    run: PretrainingRun, images: UnlabeledImages
) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """Yield what each picture shows, and what draws it."""
    if run.has_prototypes and not run.cfg.model.layout.get("cells"):
        title = "The method (Fig. 1 of the paper)"
        yield title, lambda: draw_method(run.cfg, images.load_image(0))
    yield "The views of an image", lambda: draw_views(run.cfg, images.load_image(0))
    yield "Losses", lambda: draw_losses(run.work_dir, run.records)
    health = draw_health(run.records, run.probes)
    if health:
        yield "Health", lambda: health
    weights = [run.weights] if run.weights else []
    yield "Feature maps", lambda: draw_feature_maps(weights, images)
    if not run.has_prototypes:
        return
    found = Assignments.of_run(run.work_dir, images)
    yield "Prototypes of the image", lambda: draw_prototypes(found)
    for scale in range(len(found.cosines)):
        what = f"level {scale}" if scale else "the image"
        title = f"A map of the prototypes of {what} (Fig. 2 of the paper)"
        yield title, partial(draw_prototype_map, found, scale=scale)
    most = int(found.counts(0).argmax())
    for scale in range(1, len(found.cosines)):
        title = f"A prototype and its parts at level {scale} (Fig. 3 of the paper)"
        yield title, partial(draw_prototype_parts, found, most, scale=scale)
