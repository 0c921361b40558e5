"""From a recipe and the options of ``pretrain`` to an ordinary config."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope

from ..config.build_errors import explain_build_errors
from ..config.hooks import add_hook, find_hook
from ..config.keys import used_keys
from ..config.layouts import hand_on_layout
from ..config.overrides import merge_options
from ..config.run_checks import check_config
from ..console.quiet import quiet
from ..console.wording import counted, on_one_line
from ..datasets import ImageReadError, UnlabeledImages
from ..datasets.channel_images import pixels_of, read_array
from ..errors import UserError, UserValueError, called
from ..pixels import Normalisation, Pixels
from ..probing.data import find_probe_data, read_masks
from ..probing.hook import MOST_IMAGES
from ..registry import MODELS
from ..runs.devices import reading_processes
from ..saving.save_and_stop_hook import parse_save_every
from ..weights import RANDOM, Source, build_backbone, find_normalisation, whole_path
from .continuation import continue_from
from .methods import TEACHER_GAIN
from .recipe import Recipe, RecipeRow

MOST_CHECKPOINTS = 20  # about as many are written in a run of any length
GPU_LOG_STEPS = 50  # between lines of progress on a GPU, at most an epoch
MOST_MEASURED = 256  # images, drawn once at random, for means and deviations of channels
_MOST_RATIO = 8.0  # of the images' deviations and the weights'; 12 bits in 16 have 1 / 16
_OF_COLOURS = ("saturation", "hue", "grayscale_prob", "solarize_prob")
CPU_LOG_LINES = 200  # lines of progress of a run on a CPU, or one per epoch if that is more


class Channels(NamedTuple):
    """Type of the images, and mean and deviation of each channel in the unit of the files."""

    pixels: Pixels
    mean: list[float]
    std: list[float]
    num_images: int


def finish_config(
    recipe: Recipe, images: UnlabeledImages, channels: Channels | None = None
) -> None:
    """Set all other options in the config of a recipe, and add their rows."""
    asked = recipe.asked
    backbone = recipe.backbone
    cfg = recipe.cfg
    cfg.model.backbone = dict(backbone.cfg)
    if backbone.has_stages:
        # Only for AdamW: LARC does not scale parameters of zero norm, see the base config.
        cfg.model.backbone.zero_init_residual = cfg.optim_wrapper.optimizer.type == "AdamW"
    if "neck" in cfg.model:
        cfg.model.neck.in_channels = backbone.channels
    cfg.merge_from_dict(_values(recipe, images))

    if channels is None:
        _set_normalisation(recipe)
    else:
        _set_channels(recipe, channels)

    for knob in cfg.keys() - used_keys(cfg) - {"layout"}:  # helpers of the base config
        cfg.pop(knob)
    if backbone.cfg["type"] == "ModuleBackbone":  # may have other outputs
        cfg.find_unused_parameters = True

    _set_start(recipe, is_rgb=channels is None)
    if asked.num_workers == 0:  # torch refuses to keep 0 workers
        cfg.train_dataloader.persistent_workers = False
    _set_probe(recipe)

    if asked.cfg_options:
        set_values(cfg, asked.cfg_options)
        if "auto_scale_lr.base_batch_size" not in asked.cfg_options:
            cfg.auto_scale_lr.base_batch_size = recipe.step_images
        values = ", ".join(f"{key}={value}" for key, value in asked.cfg_options.items())
        recipe.rows["options"] = RecipeRow(values, "as asked; the rows above do not follow it")
    if recipe.num_devices > 1 and cfg.get("sync_bn") and backbone.norm_that_does_more:
        raise UserValueError(
            f"sync_bn would replace the whole {backbone.norm_that_does_more} of {backbone.name}, "
            "but its forward is not BatchNorm's. Take nn.BatchNorm1d, nn.BatchNorm2d or "
            "nn.SyncBatchNorm if it only normalises, split it into one and the rest, or set "
            "sync_bn=None (cfg_options)."
        )
    hand_on_layout(cfg)


def _set_start(recipe: Recipe, *, is_rgb: bool) -> None:
    """Set the weights that the training starts from, and the teacher, or warn."""
    asked = recipe.asked
    backbone = recipe.backbone
    teacher = asked.teacher
    recipe.warnings += backbone.warnings
    if Source.of(asked.weights).is_own and backbone.is_trained is False:
        recipe.warnings.append(
            f"{backbone.name} seems to be untrained (its normalisation layers are as initialised), "
            "but will be continued as a trained one; leave --weights own out for random weights."
        )
    if not Source.of(asked.weights).is_random:
        continue_from(recipe, str(asked.weights), build_backbone(recipe.cfg), is_rgb=is_rgb)
    elif backbone.is_trained:
        recipe.warnings.append(
            f"{backbone.name} seems to be trained already (its normalisation layers have "
            "changed), but will be trained as a random one; --weights own starts from its weights."
        )
    elif not recipe.method.learns_from_teacher:
        why = f"a teacher gave {TEACHER_GAIN} points of mAP on our photographs: --teacher WEIGHTS"
        recipe.rows["weights"] = RecipeRow("random, from scratch", why)
    if backbone.num_fixed_norms and not backbone.is_trained and Source.of(asked.weights).is_random:
        recipe.warnings.append(
            f"{backbone.name} keeps the statistics of "
            f"{counted(backbone.num_fixed_norms, 'BatchNorm layer')} in training, but random "
            "weights need new ones; return a network with ordinary BatchNorm, or give weights."
        )

    if recipe.method.learns_from_teacher and teacher is not None:
        is_own = Source.of(teacher).is_own
        name = backbone.cfg.get("network", teacher) if is_own else whole_path(str(teacher))
        find_hook(recipe.cfg, "TeacherHook").teacher = name


def _set_probe(recipe: Recipe) -> None:
    """Probe on the user's labels; without labels, only a continued run."""
    asked = recipe.asked
    cfg = recipe.cfg
    if asked.probe is not None:
        recipe.rows["probe"] = add_probe(cfg, asked.probe)
    elif not Source.of(asked.weights).is_random:
        add_hook(cfg, "ProbeHook")
        num = min(MOST_IMAGES // 2, recipe.num_images)
        why = "no labels: features find an image's other half"
        recipe.rows["probe"] = RecipeRow(f"halves of {num:,} images", why)


def _values(recipe: Recipe, images: UnlabeledImages) -> dict[str, Any]:
    on_gpu = recipe.on_gpu
    num_workers = recipe.asked.num_workers
    if num_workers is None:
        num_workers = reading_processes(recipe.num_devices)
    line_steps = GPU_LOG_STEPS if on_gpu else max(1, recipe.num_steps // CPU_LOG_LINES)
    return {
        "train_dataloader.num_workers": num_workers,
        "train_dataloader.pin_memory": on_gpu,
        "train_dataloader.dataset.data_root": images.data_root,
        "train_dataloader.dataset.max_bad_share": images.max_bad_share,
        "auto_scale_lr.base_batch_size": recipe.step_images,
        "default_hooks.logger.interval": min(recipe.steps_per_epoch, line_steps),
        "default_hooks.checkpoint.interval": max(1, recipe.epochs // MOST_CHECKPOINTS),
        "randomness.seed": recipe.asked.seed or 0,
    }


def set_values(cfg: Config, options: Mapping[str, Any]) -> None:
    """Replace values of a config by dotted key, and check them by building model and optimizer."""
    merge_options(cfg, options, flag="cfg_options")
    scope = DefaultScope.overwrite_default_scope(cfg.default_scope)
    try:
        with explain_build_errors(cfg), scope, quiet():
            check_config(cfg, ("train",))
            parse_save_every(cfg.get("save_every", 1))
            build_optim_wrapper(MODELS.build(cfg.model), cfg.optim_wrapper.copy())
    except UserError as error:
        values = " ".join(f"{key}={value}" for key, value in options.items())
        raise type(error)(f"cfg_options {values}: {error}") from error


def add_probe(cfg: Config, asked: str | Path) -> RecipeRow:
    """Add the hook that probes on a labelled folder, and on its masks, if any; return the row."""
    with called("probe", field="DATA"):
        found = find_probe_data(str(asked))
        has_masks = read_masks(str(asked), found) is not None
    add_hook(cfg, "ProbeHook", data=str(Path(asked).resolve()))
    sizes = [len(split.paths) for split in (found.train, found.test)]
    choice = f"{sum(sizes):,} images of {len(found.classes)} classes"
    if found.labelled.num_boxes:
        choice += f", {found.labelled.num_boxes:,} boxes"
    why = "as asked, masks too" if has_masks else "as asked"
    if max(sizes) > MOST_IMAGES:
        why += f", at most {MOST_IMAGES:,} to train on and to test"
    return RecipeRow(choice, why)


def _set_normalisation(recipe: Recipe) -> None:
    """Normalise as the weights were trained, else as the network's authors do; add the row."""
    weights = str(recipe.asked.weights or RANDOM)
    own = find_normalisation(weights, recipe.backbone.cfg).for_pixels(None)
    if Source.of(weights).is_random and own.equals(Normalisation()):  # as in the base config
        return
    recipe.cfg.model.data_preprocessor.update(own.numbers)
    recipe.rows["pixels"] = RecipeRow(str(own), f"of {own.source}")


def _set_channels(recipe: Recipe, found: Channels) -> None:
    """Set the channels in the config, and add their row; a continued run keeps its numbers."""
    cfg = recipe.cfg
    own = cfg.model.data_preprocessor
    has_teacher = recipe.method.learns_from_teacher or recipe.asked.teacher
    kind = "teacher" if has_teacher else own.type
    if kind != "PyramidPreprocessor":
        raise UserValueError(
            f"channels must be left out for {recipe.method.key}: its {kind} takes only "
            "8-bit RGB; choose another method, without a teacher."
        )

    numbers = Normalisation(tuple(found.mean), tuple(found.std), pixels=found.pixels)
    where = f"in {counted(found.num_images, 'image')}"
    weights = str(recipe.asked.weights or RANDOM)
    of_weights = find_normalisation(weights, recipe.backbone.cfg)
    if not Source.of(weights).is_random and of_weights.fits(found.pixels):
        numbers = of_weights.for_pixels(found.pixels)
        where = f"of {numbers.source}"
        ratios = [own_std / std for own_std, std in zip(found.std, numbers.std, strict=True)]
        if max(ratios) < 1 / _MOST_RATIO or min(ratios) > _MOST_RATIO:
            recipe.warnings.append(
                f"the deviations of the channels are {max(ratios):.2g} times those that the "
                f"weights were trained with, {numbers}: scale the images to that range (12 bits in "
                "16 are 1/16 of it), or leave the weights out."
            )
    recipe.rows["channels"] = RecipeRow(str(found.pixels), f"{numbers} {where}")

    pixels = found.pixels._asdict()
    cfg.train_dataloader.dataset.pixels = pixels
    own.update(pixels=pixels, **numbers.numbers)
    if found.pixels.white is None:
        own.update(dict.fromkeys(_OF_COLOURS, 0))


def measure_channels(images: UnlabeledImages, wanted: int) -> Channels:
    """Read some images, return what they hold, and set it in the data set, or raise ValueError."""
    sample = images.sample(MOST_MEASURED)
    kinds: dict[Pixels, str] = {}  # the first file of each kind
    parts: list[np.ndarray] = []  # per image: count, means, variances, lowest, highest (5, C)
    failed: ImageReadError | None = None
    for index in range(len(sample)):
        path = sample.get_data_info(index)["img_path"]
        try:
            array = read_array(path)
        except ImageReadError as error:  # counted later
            failed = failed or error
            continue
        pixels = pixels_of(array)
        kinds.setdefault(pixels, on_one_line(path))
        values = array.reshape(-1, pixels.channels)
        ends = (values.min(0), values.max(0))
        size = np.full(pixels.channels, len(values))
        parts.append(np.stack([size, values.mean(0, float), values.var(0, float), *ends]))

    if failed is not None and not kinds:
        raise failed
    if len(kinds) > 1 or pixels.channels != wanted:
        found = " and ".join(f"{path} has {kind}" for kind, path in kinds.items())
        raise UserValueError(
            f"all images must have {counted(wanted, 'channel')} of one type, but {found}; correct "
            "channels, or convert or move the files."
        )
    images.pixels = pixels
    return _channels(pixels, np.stack(parts, axis=1))


def _channels(pixels: Pixels, parts: np.ndarray) -> Channels:
    """Join the numbers of the images (5, N, C): count, means, variances, lowest, highest."""
    counts, means, variances, lowest, highest = parts
    num_images = len(counts)
    (constant,) = np.nonzero(lowest.min(axis=0) == highest.max(axis=0))
    if len(constant):
        raise UserValueError(
            f"every channel must vary, but channel {constant[0] + 1} of {pixels.channels} is "
            f"constant in all {counted(num_images, 'image')}; remove it from the files."
        )
    mean = np.average(means, axis=0, weights=counts)
    std = np.sqrt(np.average(variances + (means - mean) ** 2, axis=0, weights=counts))
    return Channels(pixels, _rounded(mean), _rounded(std), num_images)


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.6g}") for value in values]
