"""A new run before it starts: its recipe, its config, and what it will take."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ..console.durations import format_hours, parse_duration
from ..console.wording import wrapped
from ..datasets import UnlabeledImages
from ..errors import UserValueError
from ..timing import forecast
from ..timing.forecast import Forecast
from ..weights import RANDOM
from .config import make_config, make_recipe, told_by_set
from .options import DEFAULT_BAD_SHARE, PretrainOptions
from .recipe import Recipe, describe, describe_images
from .usable_images import find_usable_images

_EPOCHS = "train_cfg.max_epochs"
_HELPS = "a smaller backbone, smaller image_px or a GPU lets more epochs fit"
_REPORT_S = 10.0
"""Seconds in which a report reads and draws on two cores, whatever its network."""
_REPORT_IMAGES = 25
"""Its network works as long as for so many images of the training: on 260 of them, but forwards
alone, and on few of their crops."""


@dataclass(frozen=True)
class Plan:
    """A run of which nothing is written yet, and what has been told of it, ready for JSON."""

    cfg: Config
    recipe: Recipe
    expected: Forecast
    told: dict[str, Any]


def make_plan(
    source: str, work_dir: Path, asked: PretrainOptions, log: Callable[[str], object] = print
) -> Plan:
    """Look at images and devices, choose a recipe, time some steps, and tell all of it.

    A budget counts from now on; beside a number of epochs, or below one epoch, it is refused.
    """
    start = time.monotonic()
    budget, values = asked.budget, asked.cfg_options or {}
    seconds = None if budget is None else parse_duration(budget, "budget")
    if budget is not None and (asked.epochs is not None or _EPOCHS in values):
        raise UserValueError(
            f"budget chooses the epochs, but they are given beside budget {budget}; leave one of "
            "the two out."
        )
    share = DEFAULT_BAD_SHARE if asked.max_bad_share is None else asked.max_bad_share
    # Under the path that training will use: the headers of tar files are read once.
    images = UnlabeledImages(data_root=str(Path(source).resolve()), max_bad_share=share)
    from_random = (asked.weights or RANDOM) == RANDOM
    short_side_px, of_images = find_usable_images(images, source, from_random=from_random)
    recipe = make_recipe(asked, images, short_side_px)
    cfg = make_config(recipe, asked, images)

    def tell() -> None:
        warnings = [wrapped(f"warning: {text}") for text in of_images]
        log("\n".join([describe(recipe, source, images.skipped), *warnings]))

    if seconds is None:
        tell()
    log("timing some steps ...")
    with told_by_set(values):
        expected = forecast_run(cfg, recipe, work_dir)
    helps = ""
    if seconds is not None:
        spent = time.monotonic() - start
        recommended, fitting = recipe.epochs, expected.fitting_epochs(seconds - spent)
        if fitting < recommended:
            helps = _HELPS
        if not fitting:
            log(wrapped(expected.line))
            probes = ", probes (probe=False, --no-probe)" if expected.num_probes else ""
            least_h = spent / 3600 + replace(expected, epochs=1).hours
            raise UserValueError(
                f"budget must be enough for one epoch, which takes about {format_hours(least_h)} "
                f"here with its timing{probes} and report, but got {budget}; {helps}."
            )
        why = f"as many as fit into {budget}; {recommended} are recommended"
        if fitting >= recommended:
            why = f"as recommended, though {fitting:,} fit into {budget}"
        asked = replace(asked, epochs=min(fitting, recommended))
        recipe = make_recipe(asked, images, short_side_px, why)
        cfg = make_config(recipe, asked, images)
        expected = replace(expected, epochs=recipe.epochs, checkpoint=cfg.default_hooks.checkpoint)
        tell()
    if not recipe.on_gpu:
        cfg.num_threads = expected.pace.threads
    if recipe.num_devices > 1:
        # For the first one, which alone probes before the training, for twice the forecast.
        seconds = expected.pace.first_probes * expected.pace.probe_s
        cfg.env_cfg.dist_cfg.timeout += math.ceil(2 * seconds)
    log(wrapped(expected.line))
    if helps:
        log(wrapped(helps))
    told = {
        "method": recipe.method.title,
        "backbone": recipe.backbone.name,
        "images": describe_images(recipe.num_images, images.skipped),
        "rows": [[name, *row] for name, row in recipe.rows.items()],
        "warnings": [*recipe.warnings, *of_images],
        "forecast": expected.line,
    }
    return Plan(cfg, recipe, expected, told)


def forecast_run(cfg: Config, recipe: Recipe, work_dir: Path) -> Forecast:
    """Time some steps of a run, and multiply."""
    share = math.ceil(recipe.num_images / recipe.num_devices)
    step = forecast.measure_pace(cfg, amp=recipe.on_gpu, num_devices=recipe.num_devices)
    return Forecast(
        step,
        epochs=cfg.train_cfg.max_epochs,
        steps_per_epoch=share // cfg.train_dataloader.batch_size,
        checkpoint=cfg.default_hooks.checkpoint,
        work_dir=work_dir,
        num_backbones=1 + any(hook.type == "ProbeHook" for hook in cfg.custom_hooks),
        other_s=_REPORT_S + _REPORT_IMAGES * step.step_s / step.batch_size,
    )
