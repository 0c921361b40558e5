"""The ResNet that a file of weights is of, read off its tensors."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmpretrain.models import ResNet
from mmpretrain.models.backbones.resnet import Bottleneck
from torch import Tensor

from ..errors import UserValueError

_DEPTHS = {
    (block is Bottleneck, blocks): depth for depth, (block, blocks) in ResNet.arch_settings.items()
}
"""Depth of a ResNet by whether its blocks are bottlenecks, and their number per stage."""
_USUAL_WIDTH = 64


def read_architecture(trunk: Mapping[str, Tensor], file: str | Path) -> dict[str, Any]:
    """Read mmpretrain's ResNet config off tensors under torchvision's names.

    Raises ValueError, naming ``file``, if the blocks are not those of a ResNet-18 to 152.
    """
    found = [match for key in trunk if (match := re.match(r"layer(\d+)\.(\d+)\.", key))]
    stages = {int(match[1]) for match in found}
    blocks = tuple(
        1 + max(int(match[2]) for match in found if int(match[1]) == stage)
        for stage in sorted(stages)
    )
    has_bottlenecks = any(key.endswith(".conv3.weight") for key in trunk)
    kind = "bottleneck" if has_bottlenecks else "basic"
    if (has_bottlenecks, blocks) not in _DEPTHS:
        raise UserValueError(
            "the backbone must be a ResNet of depth 18, 34, 50, 101 or 152, but the keys of "
            f"{file} show {kind} blocks, {blocks} per stage; download the file again, or pass one "
            "that holds a plain ResNet."
        )
    config: dict[str, Any] = {"type": "ResNet", "depth": _DEPTHS[has_bottlenecks, blocks]}
    for setting, key in (
        ("stem_channels", "conv1.weight"),
        ("base_channels", "layer1.0.conv1.weight"),
    ):
        # A missing tensor is told by the strict load, with all others that are missing.
        width = trunk[key].shape[:1].numel() if key in trunk else _USUAL_WIDTH
        if width != _USUAL_WIDTH:
            config[setting] = width
    return config
