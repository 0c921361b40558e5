"""The layout of the views, from the model of a config to its data pipeline."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from mmengine.config import Config

from ..datasets.transforms import PyramidCrop
from ..models import is_pretraining
from ..registry import TRANSFORMS, class_of


def hand_on_layout(cfg: Config) -> None:
    """Copy the model's layout to every ``PyramidCrop`` of the training data without one."""
    for _, crop in pyramid_crops(cfg):
        if crop.get("layout") is None:
            crop["layout"] = copy.deepcopy(cfg.model.layout)


def pyramid_crops(cfg: Config) -> Iterator[tuple[int, Any]]:
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
