"""What a run's config may hold: who builds or reads a part, and what a value must be.

Each table goes by the dotted key of a part or a value, which a pattern has to match wholly.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from mmengine.registry import Registry

from .. import registry as of
from ..system.environment import MOST_PROCESSES
from .class_fields import Fields

_BUILT_BY: dict[str, Registry] = {
    r"model": of.MODELS,
    r"model\.(.+\.)?((\w+_)?(head|roi_extractor)|backbone|neck|data_preprocessor)": of.MODELS,
    r"model\.(.+\.)?(loss|(\w+_)?loss_\w+)": of.MODELS,
    r"model\.(.+\.)?init_cfg": of.WEIGHT_INITIALIZERS,
    r"model\.(.+\.)?(\w+_)?(assigner|bbox_coder|anchor_generator|prior_generator)": of.TASK_UTILS,
    r"model_wrapper_cfg": of.MODEL_WRAPPERS,
    r"\w+_dataloader\.(.+\.)?datasets?": of.DATASETS,
    r"\w+_dataloader\.(.+\.)?(pipeline|transforms)": of.TRANSFORMS,
    r"\w+_dataloader\.(.+\.)?(batch_)?sampler": of.DATA_SAMPLERS,
    r"\w+_dataloader\.(.+\.)?collate_fn": of.FUNCTIONS,
    r"\w+_evaluator(\.(.+\.)?metrics)?": of.METRICS,
    r"(train|val|test)_cfg": of.LOOPS,
    r"optim_wrapper": of.OPTIM_WRAPPERS,
    r"optim_wrapper\.(.+\.)?optimizer": of.OPTIMIZERS,
    r"param_scheduler": of.PARAM_SCHEDULERS,
    r"(default|custom)_hooks\.\w+": of.HOOKS,
    r"(default|custom)_hooks\.(.+\.)?(switch_)?pipeline": of.TRANSFORMS,
    r"visualizer": of.VISUALIZERS,
    r"visualizer\.(.+\.)?vis_backends": of.VISBACKENDS,
    r"log_processor": of.LOG_PROCESSORS,
}
"""The registry of dicts with a ``type``. What is uncertain, such as ``norm_cfg`` and ``nms``, which
mmcv builds in ways of its own, is left to the builders."""
_NEEDS_TYPE = (
    r"model|(default|custom)_hooks\.\w+|param_scheduler\.\d+|optim_wrapper\.optimizer"
    r"|\w+_dataloader\.(dataset|sampler)|\w+_dataloader\.dataset(\.\w+)*\.pipeline\.\d+"
)
_READ_BY_NAME: dict[str, tuple[str, ...]] = {
    r"default_hooks": (
        *("runtime_info", "timer", "sampler_seed"),
        *("logger", "param_scheduler", "checkpoint"),
    ),
    r"env_cfg": ("cudnn_benchmark", "mp_cfg", "dist_cfg", "resource_limit"),
    r"env_cfg\.mp_cfg": ("mp_start_method", "opencv_num_threads"),
    r"auto_scale_lr": ("enable", "base_batch_size"),
    r"optim_wrapper\.paramwise_cfg": (
        *("custom_keys", "bias_lr_mult", "bias_decay_mult", "norm_decay_mult", "flat_decay_mult"),
        *("dwconv_decay_mult", "dcn_offset_lr_mult", "bypass_duplicate"),
    ),
}
"""All fields of the dicts whose readers look for these and ignore every other."""
_MAY_BE_INFINITE = ("max_norm", "norm_type")
"""Of gradients: no limit, to log the norm alone, and the norm of the greatest one."""

_Found = TypeVar("_Found")
_Rule = tuple[Callable[[Any], bool], str]
"""Whether a value is right, and the words that follow "it must be"."""


def registry_of(key: str) -> Registry | None:
    """Return the registry that builds the part of a key, None if nobody knows."""
    return _matching(_BUILT_BY, key)


def needs_type(key: str) -> bool:
    """Whether the dict of a key can be built by a ``type`` alone."""
    return re.fullmatch(_NEEDS_TYPE, key) is not None


def read_fields(key: str) -> Fields | None:
    """Return the fields of a dict that nobody builds, None if nobody knows them."""
    names = _matching(_READ_BY_NAME, key)
    # Beside mmengine's hooks a config may have others of any name.
    return Fields(frozenset(names), key == "default_hooks") if names else None


def broken_rule(key: str, value: Any) -> str | None:
    """Return in words what the value of a key must be, None if it is."""
    if isinstance(value, float) and not math.isfinite(value):
        may_be = math.isinf(value) and key.rpartition(".")[2] in _MAY_BE_INFINITE
        return None if may_be else "a finite number"
    fits, words = _matching(_RULES, key) or (lambda _: True, "")
    return None if fits(value) else words


def _matching(table: Mapping[str, _Found], key: str) -> _Found | None:
    return next((found for keys, found in table.items() if re.fullmatch(keys, key)), None)


def _is_count(value: Any, least: int = 1) -> bool:
    # mmengine's loops take 3.0 for 3, with which mmdet computes.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and value == int(value) and value >= least


_RULES: dict[str, _Rule] = {
    r"model|optim_wrapper|\w+_dataloader|(train|val|test)_cfg": (
        lambda v: isinstance(v, Mapping | None),
        "a dict",
    ),
    r"work_dir|load_from|weights": (lambda v: isinstance(v, str | None), "a string"),
    # Without these, wrong numbers are found late or never.
    r"train_cfg\.(max_epochs|max_iters|val_interval)|default_hooks\.logger\.interval": (
        _is_count,
        "an integer >= 1",
    ),
    r"default_hooks\.checkpoint\.(interval|max_keep_ckpts)": (
        lambda v: v == -1 or _is_count(v),
        "an integer >= 1, or -1 for none or all",
    ),
    # Each of these is started, or asked for, one by one.
    r"\w+_dataloader\.(num_workers|prefetch_factor)|num_threads|.+\.opencv_num_threads": (
        lambda v: v is None or (_is_count(v, 0) and v <= MOST_PROCESSES),
        f"an integer >= 0 and <= {MOST_PROCESSES}",
    ),
}
