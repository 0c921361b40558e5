"""Figures 1 to 3 of the paper, drawn from a run, on one page."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from ..datasets import UnlabeledImages
from ..drawing.embedded import data_uri
from ..errors import UserValueError
from ..system.outputs import prepare_output
from .assignments import Assignments, run_images
from .page import attempt, write_page
from .pictures.method import draw_method
from .pictures.prototype_map import draw_prototype_map
from .pictures.prototypes import draw_prototype_parts
from .run import PretrainingRun, read_run


def write_figures(
    work_dir: str | Path,
    out: str | Path,
    *,
    images: str | Path | None = None,
    overwrite: bool = False,
) -> None:
    """Write a page with the method, the map of its prototypes, and a prototype with its parts.

    ``images`` are a folder or a tar file, if the images of the run have moved.

    Raises:
        FileExistsError: ``out`` exists and ``overwrite`` is not given.
        FileNotFoundError: ``work_dir`` holds no log, no config or no checkpoint.
        ValueError: A method without prototypes, or damaged files.
    """
    prepare_output(out, ".html", overwrite=overwrite)
    run = read_run(work_dir)
    if not run.has_prototypes:
        raise UserValueError(
            f"figures need the prototypes of SS-PRL or SwAV, but {work_dir} trains "
            f"{run.cfg.model.type}; `report` has its curves and views."
        )

    everything = run_images(run.cfg, images)
    pictures: list[tuple[str, str]] = []
    left_out: list[tuple[str, str]] = []
    for title, draw in _figures(run, everything):
        with attempt(title, left_out):
            pictures.append((title, data_uri(draw(), "svg")))

    write_page(
        Path(out),
        "figures.html",
        name=run.work_dir.name,
        num_images=len(everything),
        pictures=pictures,
        left_out=left_out,
    )


def _figures(
    run: PretrainingRun, images: UnlabeledImages
) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """Yield title and drawing function of each figure; SS-PRL's have the paper's numbers."""
    method = run.recipe.get("method", run.cfg.model.type)
    number = "Figure {}: " if run.cfg.model.layout.get("levels") else ""
    yield f"{number.format(1)}{method}", lambda: draw_method(run.cfg, images.load_image(0))

    found = Assignments.of_run(run.work_dir, images)
    for scale in range(len(found.cosines)):
        what = f"level {scale}" if scale else "the image"
        title = f"{number.format(2)}Prototypes of {what}"
        yield title, partial(draw_prototype_map, found, scale=scale)

    most = int(found.counts(0).argmax())
    for scale in range(1, len(found.cosines)):
        title = f"{number.format(3)}A prototype and its parts at level {scale}"
        yield title, partial(draw_prototype_parts, found, most, scale=scale)
