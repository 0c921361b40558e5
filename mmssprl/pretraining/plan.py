"""Plan a new run: its images, recipe, config and forecast."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ..config.hooks import find_hook
from ..console.durations import format_hours, parse_duration
from ..console.tables import reasons_table
from ..console.wording import wrapped
from ..datasets import UnlabeledImages
from ..distillation.maps import forecast_pass
from ..distillation.teacher import Teacher, load_teacher
from ..errors import UserValueError
from ..pixels import Pixels
from ..runs import forecast
from ..runs.devices import choose_gpus
from ..runs.forecast import Forecast
from ..runs.start import Log, PlannedRun
from ..runs.work_dirs import refuse_used
from ..system.environment import training_threads
from ..weights import Source
from .choose import choose_recipe
from .config import Channels, finish_config, measure_channels
from .continuation import named_weights
from .network_checks import has_trained_norms
from .options import PretrainOptions
from .recipe import Recipe
from .usable_images import BAD_SHARE, find_usable_images

_MAX_KINDS = 5
_REPORT_S = 10.0  # of the final report; 5 to 8 were measured on two cores
_PROBING_S = 1800  # more that the other processes wait while the first one probes


class SeenImages(NamedTuple):
    """The images of a run, after a look at some of them."""

    images: UnlabeledImages
    channels: Channels | None  # None: all become 8-bit RGB
    short_side_px: int  # median
    warnings: list[str]


@dataclass(frozen=True)
class RecipePlanner:
    """Proposes recipes for images and devices."""

    asked: PretrainOptions
    seen: SeenImages
    num_gpus: int  # 0 is the CPU
    num_threads: int  # of the CPU

    def propose(self, epochs: int | None, why_epochs: str = "as asked") -> Recipe:
        """Choose a recipe, with its whole config."""
        recipe = choose_recipe(
            replace(self.asked, epochs=epochs),
            len(self.seen.images),
            self.seen.short_side_px,
            num_devices=max(1, self.num_gpus),
            on_gpu=self.num_gpus > 0,
            why_epochs=why_epochs,
        )
        finish_config(recipe, self.seen.images, self.seen.channels)
        recipe.warnings.extend(self.seen.warnings)
        if not self.num_gpus:
            recipe.cfg.setdefault("num_threads", self.num_threads)
        return recipe


def plan_pretraining(
    source: str, work_dir: Path, asked: PretrainOptions, log: Log = print
) -> PlannedRun:
    """Look at images and devices, choose a recipe, time some steps, and log all of it.

    Writes nothing.

    Raises:
        ValueError: Images or options that cannot be trained with, a budget with a number of epochs,
            or one that is shorter than an epoch. A budget counts from this call.
    """
    start = time.monotonic()
    asked = named_weights(asked)
    budget_s = _seconds_of_budget(asked)
    seen = look_at_images(source, asked)
    planner = RecipePlanner(asked, seen, choose_gpus(asked.gpus), training_threads())
    recipe = planner.propose(asked.epochs)
    # Before anything is printed, because the teacher may be missing or unsuitable.
    teacher = _load_teacher(recipe, seen)
    if not asked.dry_run:
        refuse_used(work_dir)

    skipped = seen.images.skipped
    if budget_s is None:  # before the timing, which may fail because of the recipe
        log(recipe_text(recipe, source, skipped))
    expected = forecast_run(recipe, seen.images, work_dir, budget_s, teacher)
    if budget_s is not None:
        spent_s = time.monotonic() - start
        fitting = _fitting_epochs(expected, budget_s, spent_s, str(asked.budget))
        if fitting < recipe.epochs:
            why = f"fit into {asked.budget}; {recipe.epochs} are recommended"
            recipe = planner.propose(fitting, why)
            checkpoint = recipe.cfg.default_hooks.checkpoint
            expected = replace(expected, epochs=fitting, checkpoint=checkpoint)
        log(recipe_text(recipe, source, skipped))

    if recipe.num_devices > 1 and "probe" in recipe.rows:
        recipe.cfg.env_cfg.dist_cfg.timeout += _PROBING_S
    log(wrapped(expected.line))
    printed = {
        "method": recipe.method.title,
        "backbone": recipe.backbone.name,
        "images": describe_images(recipe.num_images, skipped),
        "rows": [[name, *row] for name, row in recipe.rows.items()],
        "warnings": recipe.warnings,
        "forecast": expected.line,
    }
    return PlannedRun(
        name=f"{recipe.method.key}_{recipe.backbone.file_name}",
        cfg=recipe.cfg,
        recipe=printed,
        forecast=expected,
        num_gpus=planner.num_gpus,
    )


def _load_teacher(recipe: Recipe, seen: SeenImages) -> Teacher | None:
    """Load the teacher of a recipe, if it has one, and warn if it seems to be untrained."""
    hook = find_hook(recipe.cfg, "TeacherHook")
    if hook is None:
        return None
    teacher = load_teacher(hook.teacher, recipe.cfg)
    if recipe.asked.teacher and has_trained_norms(teacher) is False:
        text = (
            f"the teacher {recipe.asked.teacher} seems to be untrained: its normalisation layers "
            "are as initialised. Give trained weights."
        )
        recipe.warnings.append(text)
        seen.warnings.append(text)  # of a shorter recipe, for a budget
    return teacher


def look_at_images(source: str, asked: PretrainOptions) -> SeenImages:
    """List the images, and read some of them."""
    wanted = asked.channels
    max_bad_share = (asked.cfg_options or {}).get(BAD_SHARE, 0.01)
    pixels = Pixels(wanted, "") if wanted else None  # their type is measured below
    # The path that training uses, so that headers of tar files are read once.
    root = str(Path(source).resolve()) if Path(source).exists() else source
    images = UnlabeledImages(root, max_bad_share=max_bad_share, pixels=pixels)

    channels = measure_channels(images, wanted) if wanted else None
    from_random = Source.of(asked.weights).is_random and not asked.teacher
    short_side_px, warnings = find_usable_images(images, source, from_random=from_random)
    return SeenImages(images, channels, short_side_px, warnings)


def _seconds_of_budget(asked: PretrainOptions) -> float | None:
    """Return the seconds of a budget, or None; refuse one that comes with epochs."""
    if asked.budget is None:
        return None
    seconds = parse_duration(asked.budget, "budget")
    values = asked.cfg_options or {}
    loop = values.get("train_cfg")
    is_nested = isinstance(loop, Mapping) and "max_epochs" in loop
    if is_nested or "train_cfg.max_epochs" in values or asked.epochs:
        raise UserValueError(
            f"budget chooses the epochs, but got both budget {asked.budget} and epochs; leave one "
            "out."
        )
    return seconds


def _fitting_epochs(expected: Forecast, budget_s: float, spent_s: float, budget: str) -> int:
    """Return the epochs that fit into the rest of a budget, or raise ValueError if none does."""
    fitting = expected.fitting_epochs(budget_s - spent_s)
    if not fitting:
        least_h = (spent_s + replace(expected, epochs=1).seconds) / 3600
        raise UserValueError(
            f"budget must be enough for one epoch, about {format_hours(least_h)} with timing "
            f"and report, but got {budget}; raise it, or choose a smaller backbone or image_px."
        )
    return fitting


def recipe_text(recipe: Recipe, source: str, skipped: Mapping[str, int]) -> str:
    """Format a recipe as rows of choice and reason, and its warnings."""
    title = f"{recipe.method.title}, {recipe.backbone.name}, images of {source}"
    images = describe_images(recipe.num_images, skipped)
    warnings = [wrapped(f"warning: {text}") for text in recipe.warnings]
    return "\n".join([title, images, reasons_table(recipe.rows), *warnings])


def describe_images(num_images: int, skipped: Mapping[str, int]) -> str:
    """Format the number of images and of other files: ``54 images; 6 .heic skipped``."""
    kinds = Counter(skipped).most_common()
    named = [f"{count:,} {kind}" for kind, count in kinds[:_MAX_KINDS]]
    named += ["others"] if len(kinds) > _MAX_KINDS else []
    return f"{num_images:,} images" + (f"; {', '.join(named)} skipped" if named else "")


def forecast_run(
    recipe: Recipe,
    images: UnlabeledImages,
    work_dir: Path,
    budget_s: float | None = None,
    teacher: Teacher | None = None,
) -> Forecast:
    """Time some steps of a run, and a teacher's pass over a few images, and extrapolate."""
    cfg = recipe.cfg
    pass_s, pass_bytes = (0.0, 0) if teacher is None else forecast_pass(teacher, cfg, images)
    pace = forecast.measure_pace(
        cfg,
        amp=recipe.on_gpu,
        num_devices=recipe.num_devices,
        num_steps=recipe.num_steps,
        budget_s=budget_s,
    )
    return Forecast(
        pace,
        epochs=recipe.epochs,
        steps_per_epoch=recipe.steps_per_epoch,
        checkpoint=cfg.default_hooks.checkpoint,
        work_dir=work_dir,
        num_backbones=2 if find_hook(cfg, "ProbeHook") else 1,
        other_s=_REPORT_S + pass_s,
        other_bytes=pass_bytes,
    )
