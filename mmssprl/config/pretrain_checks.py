"""Checks of pre-training configs before anything is built."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from mmengine.config import Config

from ..datasets.transforms import PyramidCrop
from ..errors import UserError
from ..models import is_pretraining, pretraining_class
from ..pyramid import ViewLayout
from ..registry import TRANSFORMS, class_of
from .reading import refuse


def check_pretraining(cfg: Config) -> None:
    """Refuse gradient accumulation, and a ``PyramidCrop`` whose layout is not the model's."""
    method = pretraining_class(cfg)
    if method is None:
        return
    counts = (cfg.get("optim_wrapper") or {}).get("accumulative_counts", 1)
    if counts != 1:
        remedy = ", or set model.num_chunks" if method.takes_num_chunks else ""
        reason = f"it must be 1 in pre-training, but got {counts!r}; leave it out{remedy}."
        refuse(cfg, "optim_wrapper.accumulative_counts", reason)
    for i, crop in _crops_of(cfg):
        try:
            own, views = (ViewLayout.build(each.layout) for each in (crop, cfg.model))
        except (AttributeError, UserError):
            continue  # no layout, or an invalid one, which its class reports
        if own != views:
            key = f"train_dataloader.dataset.pipeline.{i}.layout"
            refuse(cfg, key, "it must equal model.layout, but they differ; leave it out.")


def hand_on_layout(cfg: Config) -> None:
    """Copy the model's layout to every ``PyramidCrop`` of the training data without one."""
    for _, crop in _crops_of(cfg):
        if crop.get("layout") is None:
            crop["layout"] = copy.deepcopy(cfg.model.layout)


def _crops_of(cfg: Config) -> Iterator[tuple[int, Any]]:
    """Yield index and config of every ``PyramidCrop`` if the model has a layout."""
    loader = cfg.get("train_dataloader")
    dataset = loader.get("dataset") if isinstance(loader, Mapping) else None
    pipeline = dataset.get("pipeline") if isinstance(dataset, Mapping) else None
    if not is_pretraining(cfg) or "layout" not in cfg.model or not isinstance(pipeline, list):
        return
    for i, transform in enumerate(pipeline):
        kind = transform.get("type") if isinstance(transform, Mapping) else None
        found = class_of(kind, TRANSFORMS)
        if found is not None and issubclass(found, PyramidCrop):
            yield i, transform


def use_compile(cfg: Config) -> None:
    """Compile backbone and augmentation; a model that cannot refuses the field."""
    cfg.model.compile_backbone = True
    cfg.model.data_preprocessor = {**(cfg.model.get("data_preprocessor") or {}), "compile": True}
