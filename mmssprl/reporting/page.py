"""Write one self-contained page about a run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..config.reading import one_line
from ..console.live_line import at_work
from ..console.messages import message_for_user
from ..console.wording import printable, wrapped
from ..drawing.embedded import embedded
from ..features.backbone import load_backbone
from ..features.extract import Images
from ..models import PretrainingModel, pretraining_class
from ..saving.run_record import REPORT_FILE
from ..search.contact_sheet import draw_neighbors
from ..search.neighbor_search import neighbors
from ..system.commands import command_line
from ..system.outputs import prepare_output, write_whole
from ..version import __version__
from . import summary
from .assignments import run_images
from .finetuning import content_of, finetuning_config
from .pictures.curves import draw_health, draw_losses
from .pictures.views import draw_views
from .run import PretrainingRun, read_run

SAMPLE = 100  # at most so many images are read, drawn by a fixed seed
_QUERIES = 5
_NEIGHBORS = 5


class RunReport(NamedTuple):
    """A page about a run, and what to print about it."""

    page: Path
    lines: list[str]
    has_trouble: bool


def write_report(work_dir: str | Path, *, images: str | Path | None = None) -> Path:
    """Write a page about a pre-training or a fine-tuning: did it learn, and what comes next.

    Args:
        work_dir: Folder of the run. A pre-training need not be finished.
        images: Folder of images or a tar file, if the images of a pre-training have moved.

    Returns:
        The page, ``report.html`` in the work dir; an older one is replaced.

    Raises:
        FileNotFoundError: ``work_dir`` holds no log or no config.
        ValueError: A log of something else, or damaged files.
    """
    return make_report(work_dir, images=images).page


def make_report(work_dir: str | Path, *, images: str | Path | None = None) -> RunReport:
    """Write the page as ``write_report``, and return what to print."""
    path = Path(work_dir) / REPORT_FILE
    tuned = finetuning_config(work_dir)
    with at_work("making the report"):
        if tuned is None:
            run = read_run(work_dir)
            content = _content(run, images)
            lines = summary.console_lines(run, content["answer"])
        else:
            content = content_of(tuned)
            lines = [content["answer"].headline]

        prepare_output(path, overwrite=True)
        template = "report.html" if tuned is None else "finetune.html"
        write_page(path, template, **{name: embedded(value) for name, value in content.items()})
    return RunReport(path, lines, content["answer"].tone == summary.BAD)


def report_run(work_dir: Path, log: Callable[[str], object]) -> None:
    """Log how a run went and write its report. A failure is logged: the training is done."""
    try:
        report = make_report(work_dir)
        log("\n".join([*map(wrapped, report.lines), f"report: {report.page}"]))
    except (Exception, KeyboardInterrupt) as error:
        reason = (message_for_user(error) or one_line(error)).rstrip(".")
        command = command_line("report", work_dir)
        log(f"warning: no report ({reason}); run `{command}` to write it")


def write_page(path: Path, template: str, **content: Any) -> None:
    """Render a template of this folder, with the time and the version, and write it."""
    environment = Environment(
        loader=PackageLoader("mmssprl.reporting", ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    page = environment.get_template(template).render(
        version=__version__,
        made=f"{datetime.now():%Y-%m-%d %H:%M}",
        again=command_line("report", "."),
        **content,
    )
    # Browsers refuse file names that are not UTF-8.
    write_whole(path, page.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def _content(run: PretrainingRun, images: str | Path | None) -> dict[str, Any]:
    """Return what the template shows."""
    root = run.images_root if images is None else str(Path(images).absolute())
    shown = look_at_images(run, images)
    method = pretraining_class(run.cfg) or PretrainingModel
    return {
        "run": run,
        "sample": SAMPLE,
        "name": run.work_dir.name,
        "method": run.recipe.get("method", run.cfg.model.type),
        "backbone": run.recipe.get("backbone", run.cfg.model.backbone.type),
        "answer": summary.verdict(run),
        "facts": summary.facts(run),
        "recipe": run.recipe,
        "config": Path(run.cfg.filename).name,
        "losses": draw_losses(run.work_dir, run.records),
        "health": draw_health(run.records, method.health_panels, run.probes),
        "has_teacher": method.learns_from_teacher,
        "has_levels": bool(run.cfg.model.get("layout", {}).get("levels")),
        "images_name": Path(root).name,
        "commands": summary.next_commands(run, root, shown.get("first", "PHOTO.jpg")),
        **dict.fromkeys(("num_images", "views", "neighbors")),
        **shown,
    }


@contextmanager
def attempt(what: str, left_out: list[tuple[str, str]]) -> Iterator[None]:
    """Note a user's error in ``left_out`` instead of raising it."""
    try:
        yield
    except Exception as error:
        if (message := message_for_user(error)) is None:
            raise
        left_out.append((what, message))


def look_at_images(run: PretrainingRun, images: str | Path | None = None) -> dict[str, Any]:
    """Draw what the images allow; ``left_out`` names what a user has to fix first.

    ``images`` is an existing folder or tar file; None takes the images of the run.
    """
    left_out: list[tuple[str, str]] = []
    found: dict[str, Any] = {"left_out": left_out}
    everything = None if images is None else run_images(run.cfg, images)
    with attempt("photographs", left_out):
        everything = everything or run_images(run.cfg)
    if everything is None:
        left_out.append(("if they have moved", "`report --images DIR` takes others."))
        return found

    found["num_images"] = len(everything)
    sample = everything.sample(SAMPLE)
    path = sample.get_data_info(0)["img_path"]
    if Path(path).is_file():
        found["first"] = path
    with attempt("views", left_out):
        found["views"] = draw_views(run.cfg, sample.load_image(0))

    if run.weights is None:
        reason = f"{run.work_dir} holds no checkpoint yet; they come with the first one."
        left_out.append(("nearest photographs", reason))
        return found
    with attempt("nearest photographs", left_out):
        model = load_backbone(str(run.weights), run.cfg)
        near = neighbors(model, sample, sample, num=_NEIGHBORS, progress=False)
        if near:  # more than one image
            shown = Images(sample)
            found["neighbors"] = draw_neighbors(near, shown, shown, num_rows=_QUERIES)
    return found
