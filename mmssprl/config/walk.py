"""One walk over a config before a run: types, fields, kinds of values, ranges, what is missing.

Only what is certain is refused: a type where one registry builds whatever has one, a field of a
class that hands none on, and of others a name that is almost a field. What else is wrong is told
while the run is built, see ``build_errors``.
"""

import importlib.util
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from mmengine.config import Config
from mmengine.registry import Registry

from ..models import is_pretraining
from ..registry import EVALUATORS, MODELS, names_in
from .class_fields import SIMILAR, Fields, fields_of, nearest
from .field_types import misfit
from .keys import used_keys
from .reading import refuse
from .rules import broken_rule, needs_type, reader_of, registry_of

_SCOPES = ("mmssprl", "mmpretrain", "mmdet", "mmseg", "mmengine")
"""Scopes of the packages that this one works with; those of others are found by their registry."""
_TOGETHER = {
    "train": ("train_dataloader", "train_cfg", "optim_wrapper"),
    "val": ("val_dataloader", "val_cfg", "val_evaluator"),
    "test": ("test_dataloader", "test_cfg", "test_evaluator"),
}
"""What mmengine's runner takes together or not at all."""
_OF_TRAINING = ("optim_wrapper", "param_scheduler", "auto_scale_lr")
_DEFAULT_HOOKS = {
    *("runtime_info", "timer", "sampler_seed", "logger", "param_scheduler", "checkpoint"),
}
_OTHERS = ("Albu", "Albumentations")
"""Types whose parts another library builds."""


def check_parts(cfg: Config, splits: Collection[str]) -> None:
    """Check every type, field and value of a config that a run would read.

    Args:
        cfg: Config of a training or a test.
        splits: Whose loops, data and metrics are needed, of 'train', 'val', 'test'.

    Raises:
        ValueError: The first mistake, with its key.
    """
    if cfg.get("model") is None:
        refuse(cfg, "model", "a run needs one, but the config sets none; add it.")
    others = {key for split in _TOGETHER.keys() - splits for key in _TOGETHER[split]}
    walk = _Walk(cfg)
    for key in sorted((used_keys(cfg) | {"default_scope"}) & cfg.keys() - others):
        if key not in _OF_TRAINING or "train" in splits:
            walk.visit(cfg[key], key, None, walk.scope)
    walk.default_hooks()


def check_scope(cfg: Config) -> None:
    """Check that the types of a config can be looked up.

    Raises:
        ValueError: A scope that is neither registered nor a package with registries.
    """
    scope = cfg.get("default_scope")
    if rule := broken_rule("default_scope", scope):
        refuse(cfg, "default_scope", f"it must be {rule}, but got {scope!r}; correct it.")
    if scope is None or scope in (*_SCOPES, *MODELS.root.children) or _has_registries(scope):
        return
    meant = nearest(scope, _SCOPES)
    remedy = f"did you mean {meant!r}? Otherwise name" if meant else "name"
    reason = f"there are no types of the scope {scope!r}; {remedy} the module that registers them "
    refuse(cfg, "default_scope", reason + "in custom_imports.")


def check_together(cfg: Config, needed: str) -> None:
    """Check that there is no loader without a loop or without data, and the like.

    Args:
        cfg: Config of a run.
        needed: What the run is for: 'train' or 'test'.

    Raises:
        ValueError: Names the key that is missing.
    """
    for split, keys in _TOGETHER.items():
        missing = [key for key in keys if cfg.get(key) is None]
        if missing and (len(missing) < len(keys) or split == needed):
            others = " and ".join(key for key in keys if key != missing[0])
            refuse(
                cfg, missing[0], f"it is needed beside {others}, but the config sets none; add it."
            )
        loader = cfg.get(keys[0])
        if isinstance(loader, Mapping) and loader.get("dataset") is None:
            key = f"{keys[0]}.dataset"
            refuse(cfg, key, "a loader needs one, but the config sets none; add it.")


class _Walk:
    """Visits the parts of one config."""

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg
        self.scope = cfg.get("default_scope") or "mmssprl"
        self.is_pretraining = is_pretraining(cfg)

    def visit(self, node: Any, key: str, registry: Registry | None, scope: str | None) -> None:
        """Check a part or a value, and what is in it.

        Args:
            node: What the config holds.
            key: Where, dotted.
            registry: Of the list that it lies in.
            scope: Where types are looked up; None inside of what another library builds.
        """
        if rule := broken_rule(key, node):
            refuse(self.cfg, key, f"it must be {rule}, but got {node!r}; correct it.")
        own = registry_of(key)
        registry = registry if own is None else own  # one without entries counts as False
        if isinstance(node, Mapping):
            scope = scope and (node.get("_scope_") or scope)
            inner = None if node.get("type") in _OTHERS else scope
            for name, child in node.items():
                self.visit(child, f"{key}.{name}", None, inner)
            if scope:
                self.part(node, key, registry, scope)
        elif isinstance(node, list | tuple):
            for i, child in enumerate(node):
                self.visit(child, f"{key}.{i}", registry, scope)

    def part(self, node: Mapping, key: str, registry: Registry | None, scope: str) -> None:
        """Check type and fields of a dict."""
        if key.endswith("_evaluator") and "metrics" in node:
            registry = EVALUATORS
        kind = node.get("type")
        if key == "optim_wrapper.paramwise_cfg" and "constructor" in self.cfg.optim_wrapper:
            return  # a constructor of the user's own, which may read anything
        if kind is not None and registry is not None:
            fields = fields_of(kind, registry, scope)
            if fields is None:
                self.unknown_type(kind, key, registry, scope)
            self.fields(node, key, fields, getattr(kind, "__name__", kind))
        elif kind is None and needs_type(key):
            refuse(self.cfg, key, "it must have a type, but it has none; add it.")
        elif kind is None and key == "train_cfg" and "by_epoch" not in node:
            refuse(self.cfg, key, "it must have a type or by_epoch, but it has neither; add one.")
        elif kind is None and (found := reader_of(key, node)):
            self.fields(node, key, *found)

    def fields(self, node: Mapping, key: str, fields: Fields, owner: object) -> None:
        """Check the fields of a dict whose reader is known."""
        for name, value in node.items():
            rule = misfit(value, fields.hints[name]) if name in fields.hints else None
            if rule and name != "type":
                reason = f"it must be {rule}, but got {value!r}; correct it."
                refuse(self.cfg, f"{key}.{name}", reason)
            if name in fields.names or name == "type" or name.startswith("_"):
                continue
            # Between a model and its parts a head may take a field out, as DETR's of its loss does.
            is_of_others = key.startswith("model.") and not self.is_pretraining
            is_certain = not fields.is_open and not is_of_others
            meant = nearest(name, fields.names, 0.6 if is_certain else SIMILAR)
            if not (meant or is_certain):
                continue
            choice = f"it has {', '.join(sorted(fields.names)) or 'none'}."
            remedy = f"did you mean {meant!r}?" if meant else choice
            refuse(self.cfg, f"{key}.{name}", f"{owner} has no such field; {remedy}")

    def unknown_type(self, kind: object, key: str, registry: Registry, scope: str) -> NoReturn:
        """Refuse a type that is not registered."""
        meant = nearest(kind, names_in(registry, scope))
        remedy = f"did you mean {meant!r}? Otherwise name" if meant else "name"
        refuse(
            self.cfg,
            f"{key}.type",
            f"there is no {registry.name.replace('_', ' ')} {kind!r}; {remedy} the module that "
            "registers it in custom_imports.",
        )

    def default_hooks(self) -> None:
        """Check that no default hook runs twice because its name is misspelt."""
        hooks = self.cfg.get("default_hooks") or {}
        for name in hooks.keys() - _DEFAULT_HOOKS:
            meant = nearest(name, _DEFAULT_HOOKS - hooks.keys(), SIMILAR)
            if meant:
                reason = (
                    f"it would run beside the default hook {meant!r}; name it so to replace it."
                )
                refuse(self.cfg, f"default_hooks.{name}", reason)


def _has_registries(scope: str) -> bool:
    try:
        return importlib.util.find_spec(f"{scope}.registry") is not None
    except (ImportError, ValueError):
        return False
