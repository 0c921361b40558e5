"""Plan a new run: its images, recipe, config and forecast."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ..config.hooks import find_hook
from ..console.durations import format_hours, parse_duration
from ..console.progress import watch
from ..console.tables import reasons_table
from ..console.wording import counted, on_one_line, wrapped
from ..datasets import ImageReadError, UnlabeledImages
from ..datasets.bad_images import most_bad
from ..distillation.maps import forecast_pass
from ..distillation.teacher import load_teacher
from ..errors import UserValueError
from ..pixels import Pixels
from ..runs import forecast
from ..runs.devices import choose_gpus
from ..runs.forecast import Forecast
from ..runs.work_dirs import refuse_used
from ..system.environment import training_threads
from ..system.locks import is_unused
from ..weights import RANDOM
from .choose import SIZE_STEP_PX, choose_recipe
from .config import finish_config, measure_channels
from .continuation import named_weights
from .options import PretrainOptions
from .recipe import Recipe

MIN_IMAGES = 8  # usable: four steps per epoch with the smallest batch of two
FEW_IMAGES = 1000  # fewer usable images give a warning
MIN_SIDE_PX = 2 * SIZE_STEP_PX  # shorter side of a usable image; no recipe has smaller views
_BAD_SHARE = "train_dataloader.dataset.max_bad_share"
_MAX_KINDS = 5
_MOST_OPENED, _LOOK_S, _SAMPLE = 2000, 20.0, 64
_REPORT_S = 10.0  # of the final report; 5 to 8 were measured on two cores
_PROBING_S = 1800  # more that the other processes wait while the first one probes


def make_plan(
    source: str, work_dir: Path, asked: PretrainOptions, log: Callable[[str], object] = print
) -> tuple[Recipe, Forecast, dict[str, Any]]:
    """Look at images and devices, choose a recipe, time some steps, and log all of it as printed.

    Writes nothing. What is printed is ready for JSON.

    Raises:
        ValueError: Images or options that cannot be trained with, a budget with a number of epochs,
            or one that is shorter than an epoch. A budget counts from this call.
    """
    start = time.monotonic()
    asked = named_weights(asked)
    budget, values = asked.budget, asked.cfg_options or {}
    seconds = None if budget is None else parse_duration(budget, "budget")
    loop = values.get("train_cfg")
    is_nested = isinstance(loop, Mapping) and "max_epochs" in loop
    if budget is not None and (is_nested or "train_cfg.max_epochs" in values or asked.epochs):
        raise UserValueError(
            f"budget chooses the epochs, but got both budget {budget} and epochs; leave one out."
        )
    wanted = asked.channels
    pixels = Pixels(wanted, "") if wanted else None  # their type is measured below
    # The path that training uses, so that headers of tar files are read once.
    root = str(Path(source).resolve()) if Path(source).exists() else source
    images = UnlabeledImages(root, max_bad_share=values.get(_BAD_SHARE, 0.01), pixels=pixels)
    channels = measure_channels(images, wanted) if wanted else None
    from_random = asked.weights in (None, RANDOM) and not asked.teacher
    short_side_px, of_images = find_usable_images(images, source, from_random=from_random)
    num_gpus, num_threads = choose_gpus(asked.gpus), training_threads()

    def propose(epochs: int | None, why: str = "as asked") -> Recipe:
        recipe = choose_recipe(
            replace(asked, epochs=epochs),
            len(images),
            short_side_px,
            num_devices=max(1, num_gpus),
            on_gpu=num_gpus > 0,
            why_epochs=why,
        )
        finish_config(recipe, images, channels)
        recipe.warnings.extend(of_images)
        if not num_gpus:
            recipe.cfg.setdefault("num_threads", num_threads)
        return recipe

    recipe = propose(asked.epochs)
    if not asked.dry_run:
        hook = find_hook(recipe.cfg, "TeacherHook")
        if hook is not None and not is_unused(work_dir):
            load_teacher(hook.teacher, recipe.cfg)  # its mistakes come first
        refuse_used(work_dir)
    if seconds is None:  # before the timing, which may fail because of the recipe
        log(recipe_text(recipe, source, images.skipped))
    expected = forecast_run(recipe, images, work_dir, seconds)
    if seconds is not None:
        spent = time.monotonic() - start
        fitting = expected.fitting_epochs(seconds - spent)
        if not fitting:
            least_h = (spent + replace(expected, epochs=1).seconds) / 3600
            raise UserValueError(
                f"budget must be enough for one epoch, about {format_hours(least_h)} with timing "
                f"and report, but got {budget}; raise it, or choose a smaller backbone or image_px."
            )
        if fitting < recipe.epochs:
            recipe = propose(fitting, f"fit into {budget}; {recipe.epochs} are recommended")
            checkpoint = recipe.cfg.default_hooks.checkpoint
            expected = replace(expected, epochs=fitting, checkpoint=checkpoint)
        log(recipe_text(recipe, source, images.skipped))
    if recipe.num_devices > 1 and "probe" in recipe.rows:
        recipe.cfg.env_cfg.dist_cfg.timeout += _PROBING_S
    log(wrapped(expected.line))
    printed = {
        "method": recipe.method.title,
        "backbone": recipe.backbone.name,
        "images": describe_images(recipe.num_images, images.skipped),
        "rows": [[name, *row] for name, row in recipe.rows.items()],
        "warnings": recipe.warnings,
        "forecast": expected.line,
    }
    return recipe, expected, printed


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
    recipe: Recipe, images: UnlabeledImages, work_dir: Path, budget_s: float | None = None
) -> Forecast:
    """Time some steps of a run, and a teacher's pass over a few images, and extrapolate."""
    cfg, devices, steps = recipe.cfg, recipe.num_devices, recipe.num_steps
    pass_s, pass_bytes = forecast_pass(cfg, images) if find_hook(cfg, "TeacherHook") else (0.0, 0)
    pace = forecast.measure_pace(
        cfg, amp=recipe.on_gpu, num_devices=devices, num_steps=steps, budget_s=budget_s
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


def find_usable_images(
    images: UnlabeledImages, source: str, *, from_random: bool = True
) -> tuple[int, list[str]]:
    """Open up to 2,000 images, spread over all, for up to 20 s or until enough are usable.

    Returns the median of the usable images' shorter sides, and warnings. Raises ValueError if too
    few are usable, or so many are unreadable that training would stop.
    """
    count, end = len(images), time.monotonic() + _LOOK_S
    spread = np.linspace(0, count - 1, min(count, _MOST_OPENED)).astype(int).tolist()
    # A sample of the whole comes first, in case time runs out.
    order = dict.fromkeys([*spread[:: max(1, len(spread) // _SAMPLE)], *spread])
    sides: list[int] = []
    unreadable: list[str] = []
    for num_opened, index in enumerate(watch(order, "looking at images")):
        usable = [side for side in sides if side >= MIN_SIDE_PX]
        if num_opened >= _SAMPLE and len(usable) >= MIN_IMAGES and time.monotonic() >= end:
            break
        try:
            sides.append(min(images.load_image(index).shape[1:]))
        except ImageReadError as error:
            unreadable.append(str(error.path))  # the training lists it in bad_images.txt
    num_opened = len(sides) + len(unreadable)
    usable = [side for side in sides if side >= MIN_SIDE_PX]
    looked = (
        f"of {counted(num_opened, 'image')} looked at {len(unreadable)} cannot be read and "
        f"{len(sides) - len(usable)} have a side below {MIN_SIDE_PX} px, the smallest view"
    )
    if len(usable) < MIN_IMAGES:
        raise UserValueError(
            f"pre-training needs at least {MIN_IMAGES} usable images, but {source} has "
            f"{len(usable)}: {looked}. Add images, or correct the path (channels reads .npy, "
            "and TIFFs other than 8-bit RGB)."
        )
    if len(unreadable) > most_bad(count, images.max_bad_share):
        raise UserValueError(
            f"at most {images.max_bad_share:.3g} of the images may be unreadable, but "
            f"{len(unreadable)} of {count:,} are, such as {on_one_line(unreadable[0])}; replace or "
            f"remove them, or raise {_BAD_SHARE} (cfg_options)."
        )
    warnings = [f"{looked}: remove them."] if len(usable) < num_opened else []
    num_usable = count * len(usable) // num_opened  # exact if all were opened
    if num_usable < FEW_IMAGES and from_random:
        warnings.append(
            f"{num_usable:,} usable images are few: expect a small gain over random weights. Add "
            "images, which need no labels, or give weights or teacher: supervised, or a file."
        )
    return int(median(usable[:_SAMPLE])), warnings  # the sample does not depend on the time
