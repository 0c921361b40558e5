"""The backbones of ``pretrain``."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from ..errors import UserValueError
from ..functional.pooling import pool
from ..models.timm_backbone import TimmBackbone, check_timm
from ..weights import TIMM

_TIMM_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"dynamic_img_size": True},
    {"dynamic_img_size": True, "dynamic_img_pad": True},
)
"""What lets transformers take views of several sizes, and of sizes that their patches do not
divide."""
_SAME = 1e-5
"""Difference of features up to which timm's pooling counts as the average of the map."""


@dataclass(frozen=True)
class Backbone:
    """A backbone that ``pretrain`` knows: its name, its config, the size of its pooled features.

    ``has_batch_norm`` says whether it normalises over the images of a batch, ``gives_map`` whether
    it gives a feature map, and not pooled features.
    """

    name: str
    cfg: Mapping[str, Any]
    channels: int
    has_batch_norm: bool = False
    gives_map: bool = True

    @property
    def is_resnet(self) -> bool:
        """Whether it is mmpretrain's ResNet, which the published optimizers are for."""
        return self.cfg["type"] == "ResNet"

    @property
    def file_name(self) -> str:
        """The name for files: ``timm-resnet10t``."""
        return re.sub(r"[^\w-]", "-", self.name)


def _resnet(depth: int, channels: int) -> Backbone:
    return Backbone(f"resnet{depth}", {"type": "ResNet", "depth": depth}, channels, True)


_VIT = {
    "type": "VisionTransformer",
    "arch": "deit-small",
    "img_size": 224,
    "patch_size": 16,
    "out_type": "avg_featmap",
}
BACKBONES = {
    backbone.name: backbone
    for backbone in (
        *(_resnet(18, 512), _resnet(34, 512), _resnet(50, 2048), _resnet(101, 2048)),
        Backbone(
            "convnext-tiny",
            {"type": "ConvNeXt", "arch": "tiny", "gap_before_final_norm": False},
            768,
        ),
        Backbone(
            "swin-tiny", {"type": "SwinTransformer", "arch": "tiny", "pad_small_map": True}, 768
        ),
        Backbone("vit-small", _VIT, 384, gives_map=False),
    )
}
"""Those of mmpretrain by name."""


def find_backbone(name: str, sizes_px: Collection[int], in_channels: int = 3) -> Backbone:
    """Return the backbone of a name: a key of ``BACKBONES``, or timm/NAME.

    ``sizes_px`` are the sides of the views that it is to see, of ``in_channels``; networks of timm
    that do not take them are refused.
    """
    if name.startswith(TIMM):
        return _find_in_timm(name, sizes_px, in_channels)
    if name not in BACKBONES:
        similar = get_close_matches(name, BACKBONES, 1)
        meant = f"; did you mean {similar[0]}?" if similar else "."
        raise UserValueError(
            f"the backbone must be one of {', '.join(BACKBONES)} or {TIMM}NAME with a name of "
            f"timm's, but got {name!r}{meant}"
        )
    found = BACKBONES[name]
    more = {} if in_channels == 3 else {"in_channels": in_channels}
    return replace(found, cfg={**found.cfg, **more})


def _find_in_timm(name: str, sizes_px: Collection[int], in_channels: int) -> Backbone:
    """Build a network of timm in the form that takes the views, and see what it gives."""
    model_name = name.removeprefix(TIMM)
    check_timm(model_name)
    fault = ""
    more = {} if in_channels == 3 else {"in_chans": in_channels}
    for options in ({**each, **more} for each in _TIMM_OPTIONS):
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                network = TimmBackbone(model_name, options=options).eval()
                channels, gives_map = _probe(network, sizes_px, in_channels)
        except Exception as error:  # each network has its own way of refusing a size
            fault = fault or f"{type(error).__name__}: {error}".splitlines()[0]
            continue
        out_type = "featmap" if gives_map else "pooled"
        return Backbone(
            name,
            {"type": "TimmBackbone", "model_name": model_name, "out_type": out_type}
            | ({"options": options} if options else {}),
            channels,
            any(isinstance(module, _BatchNorm) for module in network.modules()),
            gives_map,
        )
    sizes = ", ".join(f"{px} px" for px in sorted(sizes_px, reverse=True))
    raise UserValueError(
        f"the backbone must turn views of {sizes} into one vector or map each, but {name} does not "
        f"({fault}); choose a network that takes images of any size."
    )


@torch.no_grad()
def _probe(network: Any, sizes_px: Collection[int], in_channels: int) -> tuple[int, bool]:
    """Return the size of the pooled features, and whether they are the average of a map."""
    for px in sizes_px:
        images = torch.randn(2, in_channels, px, px)
        pooled = pool(network(images))  # (2, C)
    last = network.inner.forward_features(images)
    is_map = last.dim() == 4 and last.shape[:2] == pooled.shape
    return pooled.shape[1], is_map and torch.allclose(pool(last), pooled, atol=_SAME)
