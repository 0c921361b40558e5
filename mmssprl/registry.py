"""Registries of mmssprl, children of mmpretrain's and found lazily under the scope ``mmssprl``."""

from mmengine import registry as mmengine_registry
from mmengine.registry import Registry
from mmpretrain import registry as mmpretrain_registry

DATASETS = Registry(
    "dataset",
    parent=mmpretrain_registry.DATASETS,
    scope="mmssprl",
    locations=["mmssprl.datasets"],
)
TRANSFORMS = Registry(
    "transform",
    parent=mmpretrain_registry.TRANSFORMS,
    scope="mmssprl",
    locations=["mmssprl.datasets.transforms"],
)
MODELS = Registry(
    "model",
    parent=mmpretrain_registry.MODELS,
    scope="mmssprl",
    locations=["mmssprl.models"],
)
HOOKS = Registry(
    "hook",
    parent=mmpretrain_registry.HOOKS,
    scope="mmssprl",
    locations=["mmssprl.engine"],
)
OPTIMIZERS = Registry(
    "optimizer",
    parent=mmengine_registry.OPTIMIZERS,
    scope="mmssprl",
    locations=["mmssprl.engine"],
)
