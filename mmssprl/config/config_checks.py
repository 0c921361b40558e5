"""Types that are not registered and fields that no class has, found in a config before a run.

Only what is certain is refused: a type where one registry builds whatever has one, and a field of
a class that hands no other fields on. What is uncertain, such as ``norm_cfg`` and ``nms``, which
mmcv builds in ways of its own, is left to ``build_errors``.
"""

import inspect
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from mmengine.config import Config
from mmengine.optim import OptimWrapper
from mmengine.registry import Registry
from mmengine.runner import EpochBasedTrainLoop, IterBasedTrainLoop, TestLoop, ValLoop
from mmengine.runner.utils import set_random_seed
from torch.utils.data import DataLoader

from ..models import is_pretraining
from ..registry import (
    DATA_SAMPLERS,
    DATASETS,
    EVALUATORS,
    FUNCTIONS,
    HOOKS,
    LOG_PROCESSORS,
    LOOPS,
    METRICS,
    MODEL_WRAPPERS,
    MODELS,
    OPTIM_WRAPPERS,
    OPTIMIZERS,
    PARAM_SCHEDULERS,
    TASK_UTILS,
    TRANSFORMS,
    VISBACKENDS,
    VISUALIZERS,
    WEIGHT_INITIALIZERS,
    names_in,
)
from .class_fields import SIMILAR, Fields, fields_of, nearest
from .field_types import FLAG, hints_of, misfit
from .reading import refuse

READ_BY_NAME = {
    "env_cfg": ("cudnn_benchmark", "mp_cfg", "dist_cfg", "resource_limit"),
    "mp_cfg": ("mp_start_method", "opencv_num_threads"),
    "dist_cfg": (
        *("backend", "init_backend", "port", "timeout", "init_method", "group_name"),
        *("pg_options", "device_id"),
    ),
    "auto_scale_lr": ("enable", "base_batch_size"),
    "filter_cfg": ("filter_empty_gt", "min_size"),
    "paramwise_cfg": (
        *("custom_keys", "bias_lr_mult", "bias_decay_mult", "norm_decay_mult", "flat_decay_mult"),
        *("dwconv_decay_mult", "dcn_offset_lr_mult", "bypass_duplicate"),
    ),
}
"""All fields of the dicts whose readers look for these and ignore every other."""
_FLAGS = dict.fromkeys(("cudnn_benchmark", "enable", "bypass_duplicate"), FLAG)

_IN_MODEL = {
    re.compile(r"(\w+_)?(head|roi_extractor)|backbone|neck|data_preprocessor"): MODELS,
    re.compile(r"loss|(\w+_)?loss_\w+"): MODELS,
    re.compile(r"init_cfg"): WEIGHT_INITIALIZERS,
    re.compile(r"(\w+_)?(assigner|bbox_coder|anchor_generator|prior_generator)"): TASK_UTILS,
}
_IN_DATA = {
    re.compile(r"datasets?"): DATASETS,
    re.compile(r"pipeline|transforms"): TRANSFORMS,
    re.compile(r"(batch_)?sampler"): DATA_SAMPLERS,
    re.compile(r"collate_fn"): FUNCTIONS,
}
_IN_EVALUATOR = {re.compile(r"metrics"): METRICS}
_IN_OPTIMIZER = {re.compile(r"optimizer"): OPTIMIZERS}
_IN_HOOK = {re.compile(r"(switch_)?pipeline"): TRANSFORMS}
_IN_VISUALIZER = {re.compile(r"vis_backends"): VISBACKENDS}

Slots = Mapping[re.Pattern, Registry]
"""The registries that build the dicts with a ``type``, by the names of the fields that hold them,
at any depth of a part of a run."""

_OTHERS = ("Albu", "Albumentations")
"""Types whose parts another library builds."""
_DICTS = ("env_cfg", "randomness", "visualizer", "auto_scale_lr", "model_wrapper_cfg")
_DEFAULT_HOOKS = {
    "runtime_info",
    "timer",
    "sampler_seed",
    "logger",
    "param_scheduler",
    "checkpoint",
}
_NEEDS_TYPE = re.compile(
    r"model|(default|custom)_hooks\.\w+|param_scheduler\.\d+|optim_wrapper\.optimizer"
    r"|\w+_dataloader\.(dataset|sampler)|\w+_dataloader\.dataset(\.\w+)*\.pipeline\.\d+"
)
_LOADER = {"num_batch_per_epoch", "disable_subprocess_warning"}
"""What mmengine reads from a loader beside the arguments of torch's."""


def check_fields(cfg: Config, splits: Collection[str]) -> None:
    """Check every type and field of a config that a run would read.

    Args:
        cfg: Config of a training or a test.
        splits: Whose loops, data and metrics are needed, of 'train', 'val', 'test'.

    Raises:
        ValueError: A type that is not registered or a field that nobody reads; names the nearest.
    """
    check = _Check(cfg)
    for key in ("model", "optim_wrapper", "default_hooks", *_DICTS):
        check.shape(cfg.get(key), key, "a dict")
    check.shape(cfg.get("custom_hooks"), "custom_hooks", "a list of dicts", list, tuple)
    check.shape(cfg.get("param_scheduler"), "param_scheduler", "a dict or a list of dicts", list)
    if cfg.get("model") is None:
        refuse(cfg, "model", "a run needs one, but the config sets none; add it.")
    check.part("model", MODELS, _IN_MODEL)
    check.part("model_wrapper_cfg", MODEL_WRAPPERS, {}, optional=True)
    check.hooks()
    check.part("visualizer", VISUALIZERS, _IN_VISUALIZER)
    check.part("log_processor", LOG_PROCESSORS, {}, optional=True)
    check.known("randomness", set_random_seed)
    check.named("env_cfg")
    for split in splits:
        for key in (f"{split}_dataloader", f"{split}_cfg"):
            check.shape(cfg.get(key), key, "a dict")
        check.loader(f"{split}_dataloader")
        check.loop(f"{split}_cfg")
        check.part(f"{split}_evaluator", METRICS, _IN_EVALUATOR)
    if "train" in splits:
        check.optimizer()
        check.part("param_scheduler", PARAM_SCHEDULERS, {})
        check.named("auto_scale_lr")


class _Check:
    """Walks the parts of one config."""

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg
        self.scope = cfg.get("default_scope") or "mmssprl"
        self.is_pretraining = is_pretraining(cfg)

    def shape(self, node: Any, key: str, rule: str, *containers: type) -> None:
        """Refuse a plain value where a dict, or another container, belongs."""
        plain = bool | int | float | str | list | tuple
        if isinstance(node, plain) and type(node) not in containers:
            refuse(self.cfg, key, f"it must be {rule}, but got {node!r}; correct it.")
        for i, child in enumerate(node if isinstance(node, list | tuple) else ()):
            if child is None or isinstance(child, plain):
                refuse(self.cfg, f"{key}.{i}", f"it must be a dict, but got {child!r}; correct it.")

    def part(self, key: str, registry: Registry, slots: Slots, *, optional: bool = False) -> None:
        """Check a part that a registry builds, or several of them."""
        node = self.cfg.get(key)
        if isinstance(node, Mapping):
            if "metrics" in node:
                registry, optional = EVALUATORS, True
            if "type" not in node and optional:
                self.inside(node, key, slots, self.scope)
                return
        self.typed(node, key, registry, slots, self.scope)

    def hooks(self) -> None:
        defaults = self.cfg.get("default_hooks") or {}
        for name in defaults.keys() - _DEFAULT_HOOKS:
            meant = nearest(name, _DEFAULT_HOOKS - defaults.keys(), SIMILAR)
            if meant:
                reason = (
                    f"it would run beside the default hook {meant!r}; name it so to replace it."
                )
                refuse(self.cfg, f"default_hooks.{name}", reason)
        for key in ("default_hooks", "custom_hooks"):
            hooks = self.cfg.get(key)
            children = hooks.values() if isinstance(hooks, Mapping) else hooks
            names = hooks if isinstance(hooks, Mapping) else range(len(hooks or ()))
            for name, hook in zip(names, children or (), strict=True):
                self.shape(hook, f"{key}.{name}", "a dict")
                self.typed(hook, f"{key}.{name}", HOOKS, _IN_HOOK, self.scope)

    def loader(self, key: str) -> None:
        node = self.cfg.get(key)
        if not isinstance(node, Mapping) or "type" in node:
            return
        for name in ("dataset", "sampler"):
            self.shape(node.get(name), f"{key}.{name}", "a dict")
        self.known(key, DataLoader, _LOADER)
        self.inside(node, key, _IN_DATA, self.scope)

    def loop(self, key: str) -> None:
        node = self.cfg.get(key)
        if not isinstance(node, Mapping):
            return
        if "type" in node:
            self.typed(node, key, LOOPS, {}, self.scope)
            return
        if key == "train_cfg" and "by_epoch" not in node:
            refuse(self.cfg, key, "it must have a type or by_epoch, but it has neither; add one.")
        by_epoch = EpochBasedTrainLoop if node.get("by_epoch") else IterBasedTrainLoop
        kind = {"train_cfg": by_epoch, "val_cfg": ValLoop, "test_cfg": TestLoop}[key]
        fields = fields_of(kind, LOOPS, self.scope)
        if fields is not None:
            self.fields(node, key, fields, kind.__name__)

    def optimizer(self) -> None:
        node = self.cfg.get("optim_wrapper")
        if not isinstance(node, Mapping) or "optimizer" not in node:
            return  # several optimizers, which a constructor of its own reads
        self.shape(node["optimizer"], "optim_wrapper.optimizer", "a dict")
        if "constructor" not in node:
            self.named("optim_wrapper.paramwise_cfg", node.get("paramwise_cfg"))
        own = {k: v for k, v in node.items() if k not in ("constructor", "paramwise_cfg")}
        own.setdefault("type", OptimWrapper)
        self.typed(own, "optim_wrapper", OPTIM_WRAPPERS, _IN_OPTIMIZER, self.scope)

    def named(self, key: str, node: Any = None) -> None:
        """Check a dict of ``READ_BY_NAME`` and those in it."""
        node = self.cfg.get(key) if node is None else node
        name = key.rpartition(".")[2]
        if not isinstance(node, Mapping) or name not in READ_BY_NAME:
            return
        fields = Fields(frozenset(READ_BY_NAME[name]), is_open=False, hints=_FLAGS)
        self.fields(node, key, fields, name)
        for field, child in node.items():
            if field in READ_BY_NAME:
                self.shape(child, f"{key}.{field}", "a dict")
            self.named(f"{key}.{field}", child or {})

    def known(self, key: str, reader: Any, more: Collection[str] = ()) -> None:
        """Check a dict of the top level whose fields are the arguments of one function."""
        node = self.cfg.get(key)
        if isinstance(node, Mapping):
            names = frozenset({*inspect.signature(reader).parameters, *more})
            function = reader.__init__ if inspect.isclass(reader) else reader
            fields = Fields(names, is_open=False, hints=hints_of(function))
            self.fields(node, key, fields, reader.__name__)

    def typed(self, node: Any, key: str, registry: Registry, slots: Slots, scope: str) -> None:
        """Check a dict that a registry builds, or a list of them."""
        if isinstance(node, Sequence) and not isinstance(node, str):
            for i, child in enumerate(node):
                self.typed(child, f"{key}.{i}", registry, slots, scope)
        if not isinstance(node, Mapping):
            return
        scope = node.get("_scope_") or scope
        kind = node.get("type")
        if kind is not None:
            fields = fields_of(kind, registry, scope)
            if fields is None:
                self.unknown_type(kind, key, registry, scope)
            self.fields(node, key, fields, getattr(kind, "__name__", kind))
        elif _NEEDS_TYPE.fullmatch(key):
            refuse(self.cfg, key, "it must have a type, but it has none; add it.")
        if kind not in _OTHERS:
            self.inside(node, key, slots, scope)

    def inside(self, node: Any, key: str, slots: Slots, scope: str) -> None:
        """Check what the fields of a dict hold, each by its name's registry."""
        items: Iterable = node.items() if isinstance(node, Mapping) else ()
        if isinstance(node, Sequence) and not isinstance(node, str):
            items = enumerate(node)
        for name, child in items:
            path = f"{key}.{name}"
            registry = next((r for slot, r in slots.items() if slot.fullmatch(str(name))), None)
            if registry is None:
                self.inside(child, path, slots, scope)
            else:
                self.typed(child, path, registry, slots, scope)

    def fields(self, node: Mapping, key: str, fields: Fields, owner: object) -> None:
        for name, value in node.items():
            rule = misfit(value, fields.hints[name]) if name in fields.hints else None
            if rule and name != "type":
                reason = f"it must be {rule}, but got {value!r}; correct it."
                refuse(self.cfg, f"{key}.{name}", reason)
            if fields.is_open or name in fields.names or name == "type" or name.startswith("_"):
                continue
            # Between a model and its parts a head may take a field out, as DETR's of its loss does.
            is_certain = self.is_pretraining or not key.startswith("model.")
            meant = nearest(name, fields.names, 0.6 if is_certain else SIMILAR)
            if not (meant or is_certain):
                continue
            choice = f"it has {', '.join(sorted(fields.names)) or 'none'}."
            remedy = f"did you mean {meant!r}?" if meant else choice
            refuse(self.cfg, f"{key}.{name}", f"{owner} has no such field; {remedy}")

    def unknown_type(self, kind: object, key: str, registry: Registry, scope: str) -> NoReturn:
        meant = nearest(kind, names_in(registry, scope))
        remedy = f"did you mean {meant!r}? Otherwise name" if meant else "name"
        refuse(
            self.cfg,
            f"{key}.type",
            f"there is no {registry.name.replace('_', ' ')} {kind!r}; {remedy} the module that "
            "registers it in custom_imports.",
        )
