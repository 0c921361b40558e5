"""Export ResNets for detectron2."""

import pickle
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmpretrain.models import ResNet
from mmpretrain.models.backbones.resnet import get_expansion
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..errors import UserValueError
from .names import to_detectron2
from .targets import earlier_targets

_SETTINGS = {
    "deep_stem": False,
    "avg_down": False,
    "style": "pytorch",
    "dilations": (1, 1, 1, 1),
    "strides": (1, 2, 2, 2),
    "norm": "BatchNorm with eps=1e-05",
    "in_channels": 3,
}
"""Settings of the ResNets that detectron2 builds, at any width, with up to four stages."""


def write_detectron2(backbone: nn.Module, cfg: Config, path: Path) -> None:
    """Write a ``.pkl`` that detectron2's checkpointer loads by matching names."""
    if wrong := _difference(backbone):
        raise UserValueError(
            f"detectron2 needs a plain ResNet, but the backbone of {cfg.filename} has {wrong}; "
            f"export it to {earlier_targets('detectron2')}."
        )

    model = {}
    for name, value in backbone.state_dict().items():
        if theirs := to_detectron2(name):
            model[theirs] = value.numpy()
    content = {"model": model, "__author__": "mmssprl", "matching_heuristics": True}
    with path.open("wb") as file:
        pickle.dump(content, file, protocol=4)


def _difference(backbone: Any) -> str:
    """Describe how a backbone differs from detectron2's ResNets; '' if it does not."""
    # Subclasses have the same attributes but other blocks, stems or names.
    if type(backbone) is not ResNet:
        return f"the blocks of {type(backbone).__name__}"

    wanted: dict[str, Any] = dict(_SETTINGS)
    wanted["expansion"] = get_expansion(ResNet.arch_settings[backbone.depth][0])
    own: dict[str, Any] = {name: getattr(backbone, name, None) for name in wanted}

    # Not attributes of the network.
    norm = next(m for m in backbone.layer1[-1].children() if "Norm" in type(m).__name__)
    kind = "BatchNorm" if isinstance(norm, _BatchNorm) else type(norm).__name__
    own["norm"] = f"{kind} with eps={norm.eps}"
    stem = next(m for m in backbone.modules() if isinstance(m, nn.Conv2d))
    own["in_channels"] = stem.in_channels

    for name in ("strides", "dilations"):
        own[name] = tuple(own[name])
        wanted[name] = wanted[name][: backbone.num_stages]
    return ", ".join(f"{name}={own[name]!r}" for name in wanted if own[name] != wanted[name])
