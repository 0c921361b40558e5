"""What a run's config may hold: who builds or reads a part, and what a value must be.

Each table goes by the dotted key of a part or a value, which a pattern has to match wholly.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from mmengine.optim import OptimWrapper
from mmengine.registry import Registry
from mmengine.runner import EpochBasedTrainLoop, IterBasedTrainLoop, TestLoop, ValLoop
from mmengine.runner.utils import set_random_seed
from torch.utils.data import DataLoader

from .. import registry as of
from ..system.environment import MOST_PROCESSES
from .class_fields import FLAG, Fields, arguments_of

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
_READERS: dict[str, tuple[Callable, set[str]]] = {
    r"\w+_dataloader": (DataLoader, {"num_batch_per_epoch", "disable_subprocess_warning"}),
    r"randomness": (set_random_seed, set()),
    r"val_cfg": (ValLoop, set()),
    r"test_cfg": (TestLoop, set()),
    r"optim_wrapper": (OptimWrapper, {"constructor", "paramwise_cfg"}),
}
"""Whose arguments a dict without a ``type`` holds, and what mmengine reads from it beside them."""
READ_BY_NAME = {
    r"default_hooks": (
        *("runtime_info", "timer", "sampler_seed"),
        *("logger", "param_scheduler", "checkpoint"),
    ),
    r"env_cfg": ("cudnn_benchmark", "mp_cfg", "dist_cfg", "resource_limit"),
    r"env_cfg\.mp_cfg": ("mp_start_method", "opencv_num_threads"),
    r"env_cfg\.dist_cfg": (
        *("backend", "init_backend", "port", "timeout", "init_method", "group_name"),
        *("pg_options", "device_id"),
    ),
    r"auto_scale_lr": ("enable", "base_batch_size"),
    r"optim_wrapper\.paramwise_cfg": (
        *("custom_keys", "bias_lr_mult", "bias_decay_mult", "norm_decay_mult", "flat_decay_mult"),
        *("dwconv_decay_mult", "dcn_offset_lr_mult", "bypass_duplicate"),
    ),
}
"""All fields of the dicts whose readers look for these and ignore every other."""
_FLAGS = dict.fromkeys(("cudnn_benchmark", "enable", "bypass_duplicate"), FLAG)
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


def reader_of(key: str, node: Mapping) -> tuple[Fields, str] | None:
    """Return the fields of a dict without a ``type`` and what reads them, None if nobody knows."""
    if names := _matching(READ_BY_NAME, key):
        # Beside mmengine's hooks a config may have others of any name.
        is_open = key == "default_hooks"
        return Fields(frozenset(names), is_open, _FLAGS), key.rpartition(".")[2]
    found = _matching(_READERS, key)
    if key == "train_cfg":
        loop = EpochBasedTrainLoop if node.get("by_epoch") else IterBasedTrainLoop
        found = (loop, {"by_epoch"})
    if found is None or (key == "optim_wrapper" and "optimizer" not in node):
        return None  # several optimizers, which a constructor of its own reads
    fields = arguments_of(found[0])
    return replace(fields, names=fields.names | found[1]), found[0].__name__


def broken_rule(key: str, value: Any) -> str | None:
    """Return in words what the value of a key must be, None if it is."""
    if _is_number(value) and not math.isfinite(value):
        may_be = math.isinf(value) and key.rpartition(".")[2] in _MAY_BE_INFINITE
        return None if may_be else "a finite number"
    fits, words = _matching(_RULES, key) or (lambda _: True, "")
    return None if fits(value) else words


def _matching(table: Mapping[str, _Found], key: str) -> _Found | None:
    return next((found for keys, found in table.items() if re.fullmatch(keys, key)), None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_part(value: Any) -> bool:
    """Whether it is a dict, or something that was built already."""
    return not isinstance(value, bool | int | float | str | list | tuple)


def _count(least: int, most: float = math.inf, *others: object) -> _Rule:
    """Make the rule of an integer; some ``others`` have a meaning, too."""

    def fits(value: Any) -> bool:
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        return (is_integer and least <= value <= most) or value in others

    limit = f" and <= {most}" if most < math.inf else ""
    return fits, " or ".join([f"an integer >= {least}{limit}", *map(str, others)])


def _is_whole(value: Any) -> bool:
    # mmengine's loops take 3.0 for 3, with which mmdet computes; torch's loader does not.
    return _is_number(value) and value == int(value) and value >= 1


_RULES: dict[str, _Rule] = {
    (
        r"model|model_wrapper_cfg|default_hooks(\.\w+)?|randomness|visualizer|auto_scale_lr"
        r"|env_cfg(\.(mp|dist)_cfg)?|optim_wrapper(\.(optimizer|paramwise_cfg))?"
        r"|\w+_dataloader(\.(dataset|sampler))?|(train|val|test)_cfg"
    ): (_is_part, "a dict"),
    r"custom_hooks|param_scheduler": (
        lambda v: _is_part(v) or isinstance(v, list | tuple),
        "a dict or a list of dicts",
    ),
    r"(custom_hooks|param_scheduler)\.\d+": (lambda v: v is not None and _is_part(v), "a dict"),
    r"default_scope|work_dir|load_from|weights": (
        lambda v: isinstance(v, str | None),
        "a string",
    ),
    r"resume": (lambda v: isinstance(v, FLAG.classes), FLAG.words),
    r"sync_bn": (lambda v: v in (None, "torch", "mmcv"), "one of (None, 'torch', 'mmcv')"),
    r"train_cfg\.(max_epochs|max_iters|val_interval)": (_is_whole, "an integer >= 1"),
    r"\w+_dataloader\.(batch_size|num_batch_per_epoch)": _count(1, math.inf, None),
    # Each of these is started, or asked for, one by one.
    r"\w+_dataloader\.prefetch_factor|num_threads": _count(1, MOST_PROCESSES, None),
    r"\w+_dataloader\.num_workers|env_cfg\.mp_cfg\.opencv_num_threads": _count(0, MOST_PROCESSES),
    r"optim_wrapper\.accumulative_counts|auto_scale_lr\.base_batch_size": _count(1),
    r"default_hooks\.logger\.interval|log_processor\.window_size": _count(1),
    # -1 is never, and no limit.
    r"default_hooks\.checkpoint\.(interval|max_keep_ckpts)": _count(1, math.inf, -1),
    r"param_scheduler(\.\d+)?\.(step_size|end|T_max|total_steps)|env_cfg\.dist_cfg\.timeout": (
        lambda v: v is None or (_is_number(v) and v > 0),
        "a number > 0",
    ),
    r"param_scheduler(\.\d+)?\.begin": (lambda v: _is_number(v) and v >= 0, "a number >= 0"),
}
