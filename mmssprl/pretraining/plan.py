"""A new run before it starts: its recipe, its config, and what it will take."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ..console.durations import format_hours, parse_duration
from ..console.wording import wrapped
from ..datasets import UnlabeledImages
from ..errors import UserError, UserValueError
from ..timing import pace
from ..timing.forecast import Forecast
from .budget import what_helps
from .config import make_config, make_recipe
from .methods import DEFAULT_VARIANT
from .probe import wait_for_probes
from .recipe import Recipe, describe, describe_images
from .set_values import told_by_set
from .usable_images import UsableImages, find_usable_images
from .views import smaller_px

_OF_RECIPE = {
    *("method", "variant", "backbone", "epochs", "batch_size", "accumulate"),
    *("image_px", "lr", "gpus"),
}
_EPOCHS = "train_cfg.max_epochs"
_SMALL_BACKBONE = "resnet18"
_REPORT_S = 10.0
"""Seconds in which a report reads and draws on two cores, whatever its network."""
_REPORT_IMAGES = 25
"""Its network works as long as for so many images of the training: on 260 of them, but forwards
alone, and on few of their crops."""


@dataclass(frozen=True)
class Plan:
    """A run of which nothing is written yet.

    Args:
        cfg: Its config.
        recipe: What the config was made of.
        expected: What it will take.
        images: Their number, in words.
        warnings: What the user should know before the run.
    """

    cfg: Config
    recipe: Recipe
    expected: Forecast
    images: str
    warnings: list[str]

    def told(self) -> dict[str, Any]:
        """Return what has been told of it, ready for JSON."""
        return {
            "method": self.recipe.method.title,
            "backbone": self.recipe.backbone.name,
            "images": self.images,
            "rows": [[name, *row] for name, row in self.recipe.rows.items()],
            "warnings": self.warnings,
            "forecast": self.expected.line,
        }


def make_plan(
    source: str,
    work_dir: Path,
    *,
    log: Callable[[str], object] = print,
    budget: str | None = None,
    max_bad_share: float = 0.01,
    **options: Any,
) -> Plan:
    """Look at the images and devices, choose a recipe, time some steps, and tell all of it.

    Args:
        source: Folder of images or of tar files, or one tar file.
        work_dir: Folder of the run.
        log: Receives lines.
        budget: Time from now on until the report is written, see ``parse_duration``; the epochs
            follow from it.
        max_bad_share: Of ``UnlabeledImages``.
        options: Of ``make_recipe`` and ``make_config``.

    Raises:
        FileNotFoundError, OSError, RuntimeError: As ``UnlabeledImages``, ``make_recipe``,
            ``make_config`` and ``measure_pace``.
        ValueError: So too; or a budget beside a number of epochs, or below one epoch.
    """
    start = time.monotonic()
    seconds = None if budget is None else parse_duration(budget, "--budget")
    if budget is not None and ("epochs" in options or _EPOCHS in options.get("cfg_options", {})):
        raise UserValueError(
            f"--budget chooses the epochs, but they are given beside --budget {budget}; leave one "
            "of the two out."
        )
    # Under the path that training will use: the headers of tar files are read once.
    root = str(Path(source).resolve())
    images = UnlabeledImages(data_root=root, max_bad_share=max_bad_share)
    usable = find_usable_images(images, source)
    of_recipe = {key: value for key, value in options.items() if key in _OF_RECIPE}
    of_config = {key: value for key, value in options.items() if key not in _OF_RECIPE}
    recipe = make_recipe(images, usable, **of_recipe)
    cfg = make_config(recipe, images, **of_config)

    of_images = usable.warnings(from_random=cfg.get("weights") is None)

    def tell() -> None:
        warnings = [wrapped(f"warning: {text}") for text in of_images]
        log("\n".join([describe(recipe, source, images.skipped), *warnings]))

    if seconds is None:
        tell()
    log("timing some steps ...")
    with told_by_set(options.get("cfg_options", {})):
        expected = forecast_run(cfg, recipe, work_dir)
    helps = ""
    if seconds is not None:
        spent = time.monotonic() - start
        recommended, fitting = recipe.epochs, expected.fitting_epochs(seconds - spent)
        if fitting < recommended:
            helps = what_helps(recipe, _cheaper(recipe, images, usable, of_recipe))
        if not fitting:
            log(wrapped(expected.line))
            probes = ", probes (--no-probe)" if expected.num_probes else ""
            least_h = spent / 3600 + replace(expected, epochs=1).hours
            more = f"; {helps}" if helps else ""
            raise UserValueError(
                f"--budget must be enough for one epoch, which takes about {format_hours(least_h)} "
                f"here with its timing{probes} and report, but got {budget}{more}."
            )
        why = f"as many as fit into {budget}; {recommended} are recommended"
        if fitting >= recommended:
            why = f"as recommended, though {fitting:,} fit into {budget}"
        of_recipe = {**of_recipe, "epochs": min(fitting, recommended), "why_epochs": why}
        recipe = make_recipe(images, usable, **of_recipe)
        cfg = make_config(recipe, images, **of_config)
        expected = replace(expected, epochs=recipe.epochs, checkpoint=cfg.default_hooks.checkpoint)
        tell()
    if not recipe.on_gpu:
        cfg.num_threads = expected.pace.threads
    if recipe.num_devices > 1:
        wait_for_probes(cfg, expected.pace.first_probes * expected.pace.probe_s)
    log(wrapped(expected.line))
    if helps:
        log(wrapped(helps))
    told_images = describe_images(recipe.num_images, images.skipped)
    return Plan(cfg, recipe, expected, told_images, [*recipe.warnings, *of_images])


def forecast_run(cfg: Config, recipe: Recipe, work_dir: Path) -> Forecast:
    """Time some steps of a run, and multiply."""
    share = math.ceil(recipe.num_images / recipe.num_devices)
    step = pace.measure_pace(cfg, amp=recipe.on_gpu, num_devices=recipe.num_devices)
    return Forecast(
        step,
        epochs=cfg.train_cfg.max_epochs,
        steps_per_epoch=share // cfg.train_dataloader.batch_size,
        checkpoint=cfg.default_hooks.checkpoint,
        work_dir=work_dir,
        num_backbones=1 + any(hook.type == "ProbeHook" for hook in cfg.custom_hooks),
        report_s=_REPORT_S + _REPORT_IMAGES * step.step_s / step.batch_size,
    )


def _cheaper(
    recipe: Recipe, images: UnlabeledImages, usable: UsableImages, options: Mapping[str, Any]
) -> dict[str, Recipe]:
    """Return recipes whose steps take less time, by the option that asks for them."""
    wanted: dict[str, dict[str, Any]] = {
        f"--backbone {_SMALL_BACKBONE}": {"backbone": _SMALL_BACKBONE},
    }
    px = smaller_px(recipe.layout["image_px"])
    if px is not None:
        wanted[f"--image-px {px}"] = {"image_px": px}
    if recipe.method.variant not in (None, DEFAULT_VARIANT):
        wanted[f"--variant {DEFAULT_VARIANT}"] = {"variant": None}
    found = {}
    for option, changes in wanted.items():
        try:
            found[option] = make_recipe(images, usable, **{**options, **changes})
        except UserError:  # nothing to recommend
            continue
    return found
