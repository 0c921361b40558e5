"""One walk over a config before a run: types, fields, kinds of values, ranges, what is missing.

Only what is certain is refused: a type where one registry builds whatever has one, a field of a
class that hands none on, and of others a name that is almost a field. What else is wrong is told
while the run is built, see ``build_errors``.
"""

from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from mmengine.config import Config
from mmengine.registry import Registry

from ..models import is_pretraining
from ..registry import EVALUATORS, MODELS, names_in
from .class_fields import SIMILAR, Fields, fields_of, nearest
from .keys import used_keys
from .reading import refuse
from .rules import broken_rule, needs_type, reader_of, registry_of

_SCOPES = ("mmssprl", "mmpretrain", "mmdet", "mmseg", "mmengine")
_TOGETHER = {
    "train": ("train_dataloader", "train_cfg", "optim_wrapper"),
    "val": ("val_dataloader", "val_cfg", "val_evaluator"),
    "test": ("test_dataloader", "test_cfg", "test_evaluator"),
}
"""What mmengine's runner takes together or not at all."""
_OF_TRAINING = ("optim_wrapper", "param_scheduler", "auto_scale_lr")
_OTHERS = ("Albu", "Albumentations")
"""Types whose parts another library builds."""


def check_parts(cfg: Config, splits: Collection[str]) -> None:
    """Check every type, field and value that a run of these splits would read.

    Raises:
        ValueError: The first mistake, with its key.
    """
    if cfg.get("model") is None:
        refuse(cfg, "model", "a run needs one, but the config sets none; add it.")
    others = {key for split in _TOGETHER.keys() - splits for key in _TOGETHER[split]}
    walk = _Walk(cfg)
    scope = cfg.get("default_scope")
    walk.visit(scope, "default_scope", None, None)
    if scope not in (None, *_SCOPES, *MODELS.root.children):
        reason = f"there are no types of the scope {scope!r}; correct it, or name the module that "
        refuse(cfg, "default_scope", reason + "registers them in custom_imports.")
    for key in sorted(used_keys(cfg) & cfg.keys() - others):
        if key not in _OF_TRAINING or "train" in splits:
            walk.visit(cfg[key], key, None, walk.scope)


def check_together(cfg: Config, needed: str) -> None:
    """Check that there is no loader without a loop or without data, and the like.

    ``needed`` is what the run is for: 'train' or 'test'.
    """
    for split, keys in _TOGETHER.items():
        missing = [key for key in keys if cfg.get(key) is None]
        if missing and (len(missing) < len(keys) or split == needed):
            others = " and ".join(key for key in keys if key != missing[0])
            reason = f"it is needed beside {others}, but the config sets none; add it."
            refuse(cfg, missing[0], reason)
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

        ``registry`` is that of the list that it lies in; ``scope`` where types are looked up, None
        inside of what another library builds.
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
            kind = fields.kinds.get(name)
            if kind and not isinstance(value, kind.classes):
                reason = f"it must be {kind.words}, but got {value!r}; correct it."
                refuse(self.cfg, f"{key}.{name}", reason)
            if name in fields.names or name == "type" or name.startswith("_"):
                continue
            # Between a model and its parts a head may take a field out, as DETR's of its loss does.
            is_of_others = key.startswith("model.") and not self.is_pretraining
            is_certain = not fields.is_open and not is_of_others
            if not is_certain and name.rstrip("_0123456789") in fields.names:
                continue  # a second one, such as checkpoint2 of default_hooks
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
