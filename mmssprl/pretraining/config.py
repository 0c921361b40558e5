"""From a recipe and the options of ``pretrain`` to an ordinary config."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope

from ..config.build_errors import explain_build_errors
from ..config.keys import used_keys
from ..config.overrides import merge_options
from ..config.pretrain_checks import hand_on_layout
from ..config.run_checks import check_config
from ..console.quiet import quiet
from ..datasets import UnlabeledImages
from ..distillation.maps import teacher_hook
from ..errors import UserError, UserRuntimeError, UserValueError, called
from ..probing.data import find_probe_data, read_masks
from ..probing.hook import MOST_IMAGES
from ..registry import MODELS
from ..saving.save_and_stop_hook import parse_save_every
from ..system.environment import usable_cores
from ..weights import OWN, RANDOM, build_backbone
from .channels import Channels
from .chosen import Recipe, RecipeRow
from .continuation import add_anchor, check_weights, keep_features, whole_path
from .methods import CONTINUED_GAIN, TEACHER_GAIN

MOST_WORKERS = 8
"""Most reading processes of a training process."""
MOST_CHECKPOINTS = 20
"""About as many are written in a run of any length."""
GPU_LOG_STEPS = 50
"""Steps between lines of progress on a GPU, at most an epoch."""
CPU_LOG_LINES = 200
"""Lines of progress of a run on a CPU, or one per epoch if that is more."""


def make_config(
    recipe: Recipe, images: UnlabeledImages, channels: Channels | None = None
) -> Config:
    """Put a recipe and the other options into the base config; add their rows to the recipe."""
    asked, cfg = recipe.asked, copy.deepcopy(recipe.base)
    cfg.layout = cfg.model.layout = recipe.layout
    cfg.model.backbone = dict(recipe.backbone.cfg)
    if recipe.backbone.has_stages:
        # Only for AdamW: LARC does not scale parameters of zero norm, see the base config.
        cfg.model.backbone.zero_init_residual = recipe.optimizer["type"] == "AdamW"
    cfg.optim_wrapper.optimizer = recipe.optimizer
    cfg.param_scheduler = recipe.schedule
    cfg.merge_from_dict({**_values(recipe, images), **recipe.values})
    if channels is not None:
        cfg.merge_from_dict(channels.add_to(recipe))
    cfg.randomness.seed = asked.seed or 0
    for knob in cfg.keys() - used_keys(cfg) - {"layout"}:  # helpers of the base config
        cfg.pop(knob)
    if recipe.backbone.cfg["type"] == "ModuleBackbone":  # may have other outputs
        cfg.find_unused_parameters = True
    weights = RANDOM if asked.weights is None else str(asked.weights)
    if weights != RANDOM:
        backbone = build_backbone(cfg)
        check_weights(weights, backbone, recipe)
        if weights != OWN:
            cfg.weights = whole_path(weights)
        recipe.rows["weights"] = RecipeRow(weights, "as asked")
        keep_features(cfg, recipe, backbone)
        can_anchor = recipe.backbone.gives_map and channels is None and cfg.model.type == "SSPRL"
        # A teacher of these methods is the start itself, or ``choose_recipe`` has refused it.
        if not recipe.method.uses_teacher and (can_anchor or asked.teacher is not None):
            add_anchor(cfg, recipe)
        elif asked.teacher is None:
            why = f"as asked; from SwAV's weights continuing added {CONTINUED_GAIN} points of mAP"
            recipe.rows["weights"] = RecipeRow(weights, why)
    elif recipe.backbone.is_trained:
        recipe.warnings.append(
            f"{recipe.backbone.name} seems to be trained already (its normalisation layers have "
            "changed), but will be trained as a random one; --weights own starts from its weights."
        )
    elif not recipe.method.uses_teacher:
        why = f"a teacher gave {TEACHER_GAIN} points of mAP on our photographs: --teacher WEIGHTS"
        recipe.rows["weights"] = RecipeRow("random, from scratch", why)
    if recipe.method.uses_teacher and asked.teacher is not None:
        name = str(asked.teacher)
        own = recipe.backbone.cfg.get("network", name)
        teacher_hook(cfg).teacher = own if name == OWN else whole_path(name)
    if asked.num_workers is not None:
        cfg.train_dataloader.num_workers = asked.num_workers
    if asked.num_workers == 0:  # torch refuses to keep 0 workers
        cfg.train_dataloader.persistent_workers = False
    if asked.probe is not None:
        recipe.rows["probe"] = add_probe(cfg, asked.probe)
    elif weights != RANDOM:
        cfg.custom_hooks = [*cfg.custom_hooks, {"type": "ProbeHook"}]
        num = min(MOST_IMAGES // 2, recipe.num_images)
        why = "no labels: features find an image's other half"
        recipe.rows["probe"] = RecipeRow(f"halves of {num:,} images", why)
    if asked.cfg_options:
        set_values(cfg, asked.cfg_options)
        if "auto_scale_lr.base_batch_size" not in asked.cfg_options:
            step_images = cfg.train_dataloader.batch_size * recipe.num_devices
            cfg.auto_scale_lr.base_batch_size = step_images
        values = ", ".join(f"{key}={value}" for key, value in asked.cfg_options.items())
        recipe.rows["options"] = RecipeRow(values, "as asked; the rows above do not follow it")
    hand_on_layout(cfg)
    return cfg


def choose_gpus(asked: int | None) -> int:
    """Return the number of GPUs to train on, all by default; 0 is the CPU."""
    found = torch.cuda.device_count()
    if asked is None:
        return found
    if not 1 <= asked <= found:
        raise UserValueError(
            f"gpus must be from 1 to {found}, the number that torch finds, but got {asked}; leave "
            "it out, or set CUDA_VISIBLE_DEVICES= to train on the CPU."
        )
    return asked


def gpus_of_run(cfg: Config) -> int:
    """Return the number of GPUs that a run resumes on, that of its recipe; 0 is the CPU.

    Raises:
        RuntimeError: There are fewer GPUs, so that a step would have fewer images.
    """
    batch_size, step_images = cfg.train_dataloader.batch_size, cfg.auto_scale_lr.base_batch_size
    wanted, found = max(1, step_images // batch_size), torch.cuda.device_count()
    if wanted > max(1, found):
        raise UserRuntimeError(
            f"cannot resume: the run began on {wanted} GPUs ({step_images} images per step), here "
            f"are {found}; resume it on {wanted} GPUs, or start a new run."
        )
    return min(wanted, found)


def reading_processes(num_devices: int) -> int:
    """Return the reading processes per training process; one core is left to the latter."""
    return min(MOST_WORKERS, max(1, usable_cores() // num_devices - 1))


def _values(recipe: Recipe, images: UnlabeledImages) -> dict[str, Any]:
    return {
        "model.neck.in_channels": recipe.backbone.channels,
        "train_dataloader.batch_size": recipe.batch_size,
        "train_dataloader.num_workers": reading_processes(recipe.num_devices),
        "train_dataloader.pin_memory": recipe.on_gpu,
        "train_dataloader.dataset.data_root": images.data_root,
        "train_dataloader.dataset.max_bad_share": images.max_bad_share,
        "train_cfg.max_epochs": recipe.epochs,
        "auto_scale_lr.base_batch_size": recipe.step_images,
        "default_hooks.logger.interval": min(
            recipe.steps_per_epoch,
            GPU_LOG_STEPS if recipe.on_gpu else max(1, recipe.num_steps // CPU_LOG_LINES),
        ),
        "default_hooks.checkpoint.interval": max(1, recipe.epochs // MOST_CHECKPOINTS),
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
    hook = {"type": "ProbeHook", "data": str(Path(asked).resolve())}
    cfg.custom_hooks = [*cfg.get("custom_hooks", []), hook]
    splits = (found.train, found.test)
    num_images = sum(len(split.paths) for split in splits)
    num_probed = sum(min(len(split.paths), MOST_IMAGES) for split in splits)
    probed = f"{num_probed:,} of " if num_probed < num_images else ""
    boxes = f", {found.labelled.num_boxes:,} boxes" if found.labelled.num_boxes else ""
    choice = f"{probed}{num_images:,} images of {len(found.classes)} classes{boxes}"
    return RecipeRow(choice, "as asked, masks too" if has_masks else "as asked")
