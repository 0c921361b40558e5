"""Checks of pre-training configs before anything is built."""

from collections.abc import Mapping
from typing import Any

from mmengine.config import Config

from ..errors import UserError
from ..models import pretraining_class
from ..pyramid import ViewLayout
from ..registry import HOOKS, class_of
from .hooks import hooks_of, is_named
from .layouts import pyramid_crops
from .reading import refuse


def require_pretrain_hook(cfg: Config) -> None:
    """Refuse a pre-training config if its ``custom_hooks`` replaced the hooks of its base.

    A config of mmpretrain never had them; some of its classes have the names of ours.
    """
    method = pretraining_class(cfg)
    if method is None or any(map(_is_pretrain_hook, hooks_of(cfg))):
        return

    scope = cfg.get("default_scope") or "mmssprl"
    if scope != "mmssprl":
        reason = (
            f"{method.__name__} is a class of mmssprl, too, and default_scope is {scope}. "
            "docs/from_openmmlab.md says how to translate the config; "
            f"type='{scope}.{method.__name__}' trains the class of {scope} as it is."
        )
        refuse(cfg, "model.type", reason)
    reason = (
        "pre-training needs PretrainHook, but this list has none. Build on "
        "configs/_base_/default_runtime.py, and add dict(type='PretrainHook'), "
        "dict(type='MonitorHook') to a list of yours, which replaces the list of a _base_."
    )
    refuse(cfg, "custom_hooks", reason)


def _is_pretrain_hook(hook: Any) -> bool:
    """Whether a hook is PretrainHook or a class of the user that extends it."""
    kind = class_of(hook.get("type"), HOOKS) if isinstance(hook, Mapping) else None
    bases = getattr(kind, "__mro__", ())
    return is_named(hook, "PretrainHook") or "PretrainHook" in [base.__name__ for base in bases]


def check_pretraining(cfg: Config) -> None:
    """Refuse gradient accumulation, and a ``PyramidCrop`` with another layout than the model."""
    method = pretraining_class(cfg)
    if method is None:
        return

    counts = (cfg.get("optim_wrapper") or {}).get("accumulative_counts", 1)
    if counts != 1:
        remedy = ", or set model.num_chunks" if method.takes_num_chunks else ""
        reason = f"it must be 1 in pre-training, but got {counts!r}; leave it out{remedy}."
        refuse(cfg, "optim_wrapper.accumulative_counts", reason)

    for i, crop in pyramid_crops(cfg):
        try:
            own = ViewLayout.build(crop.layout)
            views = ViewLayout.build(cfg.model.layout)
        except (AttributeError, UserError):
            continue  # no layout, or an invalid one, which its class reports
        if own != views:
            key = f"train_dataloader.dataset.pipeline.{i}.layout"
            refuse(cfg, key, "it must equal model.layout, but they differ; leave it out.")
