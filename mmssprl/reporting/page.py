"""From the work dir of a pre-training to one self-contained page."""

from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..console.wording import command_line, printable
from ..models import SSPRL, pretraining_class
from ..saving.run_record import REPORT_FILE
from ..system.outputs import prepare_output, write_whole
from ..version import __version__
from ..visualization.health import draw_health, scalar_name
from ..visualization.losses import draw_losses
from . import summary
from .photographs import figure_uri, look_at_photographs
from .run import PretrainingRun, read_run


def write_report(
    work_dir: str | Path,
    out: str | Path | None = None,
    *,
    images: str | Path | None = None,
    force: bool = False,
) -> Path:
    """Write a page about a pre-training: did it learn, and what comes next.

    Args:
        work_dir: Folder of the run, finished or not. What its files do not tell is left out.
        out: File to write; None takes ``REPORT_FILE`` in the work dir, which may be there already.
        images: Folder of images or a tar file, if those of the run have moved.
        force: Replace ``out``.

    Returns:
        The page.

    Raises:
        FileExistsError: ``out`` is there and ``force`` is not given.
        FileNotFoundError: ``work_dir`` is no folder, or holds no log or no config.
        ValueError: A log of something else, or damaged files.
    """
    run = read_run(work_dir)
    own = Path(work_dir) / REPORT_FILE
    path = own if out is None else Path(out)
    prepare_output(path, force=force or path.resolve() == own.resolve())
    write_page(path, "report.html", **_content(run, images))
    return path


def write_page(path: Path, template: str, **content: Any) -> None:
    """Fill a template of this folder and write it; the time and the version come with it."""
    environment = Environment(
        loader=PackageLoader("mmssprl.reporting", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    page = environment.get_template(template).render(
        version=__version__, made=f"{datetime.now():%Y-%m-%d %H:%M}", **content
    )
    # A file's name that is no UTF-8 would be no text for a browser.
    write_whole(path, page.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def _content(run: PretrainingRun, images: str | Path | None) -> dict[str, Any]:
    """Return what the template shows."""
    root = run.images_root if images is None else str(Path(images).absolute())
    kind = pretraining_class(run.cfg)
    has_prototypes = kind is not None and issubclass(kind, SSPRL)
    photographs = look_at_photographs(run, images, has_prototypes=has_prototypes)
    health = draw_health(run.records, run.probes)
    return {
        "run": run,
        "name": run.work_dir.name,
        "method": run.recipe.get("method", run.cfg.model.type),
        "backbone": run.recipe.get("backbone", run.cfg.model.backbone.type),
        "answer": summary.answer(run),
        "facts": summary.facts(run),
        "probe_words": summary.probe_words(run),
        "recipe": run.recipe.get("rows", []),
        "warnings": run.recipe.get("warnings", []),
        "losses": figure_uri(draw_losses(run.work_dir, run.records), "png"),
        "compared": [(scalar_name(n), *rest) for n, *rest in run.diagnosis.compared],
        "health": figure_uri(health, "png") if health else "",
        "photographs": photographs,
        "has_prototypes": has_prototypes,
        "costs": summary.costs(run),
        "starts": summary.starts(run),
        "images_name": Path(root).name,
        "config_name": Path(run.cfg.filename).name,
        "commands": summary.next_commands(run, root, photographs.first or "PHOTO.jpg"),
        "again": command_line("report", "."),
    }
