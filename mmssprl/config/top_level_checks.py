"""The keys at the top of a config: the scope of its types, and what belongs together."""

import importlib.util
from collections.abc import Iterator, Mapping

from mmengine.config import Config
from mmengine.registry import Registry

from ..registry import MODELS
from .class_fields import nearest
from .field_types import FLAG, misfit
from .reading import refuse

_STRINGS = ("default_scope", "work_dir", "load_from", "weights")
_SCOPES = ("mmssprl", "mmpretrain", "mmdet", "mmseg", "mmengine")
"""Scopes of the packages that this one works with; those of others are found by their registry."""
_SYNC_BN = (None, "torch", "mmcv")
_TOGETHER = {
    "train": ("train_dataloader", "train_cfg", "optim_wrapper"),
    "val": ("val_dataloader", "val_cfg", "val_evaluator"),
    "test": ("test_dataloader", "test_cfg", "test_evaluator"),
}
"""What mmengine's runner takes together or not at all."""


def check_plain_values(cfg: Config) -> None:
    """Check the values at the top that are no dicts, among them the scope of the types.

    Raises:
        ValueError: A value of another type, or a scope that is neither registered nor a package
            with registries.
    """
    for key in _STRINGS:
        if not isinstance(cfg.get(key), str | None):
            refuse(cfg, key, f"it must be a string, but got {cfg.get(key)!r}; correct it.")
    if rule := misfit(cfg.get("resume"), FLAG):
        refuse(cfg, "resume", f"it must be {rule}, but got {cfg.resume!r}; correct it.")
    if cfg.get("sync_bn") not in _SYNC_BN:
        reason = f"it must be one of {_SYNC_BN}, but got {cfg.sync_bn!r}; correct it."
        refuse(cfg, "sync_bn", reason)
    scope = cfg.get("default_scope")
    if scope is None or scope in _SCOPES or scope in _scopes(MODELS.root) or _is_package(scope):
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


def _scopes(registry: Registry) -> Iterator[str]:
    yield registry.scope
    for child in registry.children.values():
        yield from _scopes(child)


def _is_package(scope: str) -> bool:
    try:
        return importlib.util.find_spec(f"{scope}.registry") is not None
    except (ImportError, ValueError):
        return False
