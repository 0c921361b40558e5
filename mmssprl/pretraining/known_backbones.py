"""The backbones that ``pretrain`` knows by name. It imports no torch, as options name them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..console.wording import meant
from ..errors import UserValueError
from ..weights.sources import timm_model, timm_network

DEFAULT_BACKBONE = "resnet50"


@dataclass(frozen=True)
class Backbone:
    """A backbone of ``pretrain``."""

    name: str  # value of the option
    cfg: Mapping[str, Any]
    channels: int  # size of the pooled features
    gives_map: bool = True  # a feature map, not pooled features
    is_resnet: bool = False  # by class; the published optimizers apply
    is_trained: bool | None = None  # by its normalisation layers; None: without them
    num_fixed_norms: int = 0  # BatchNorm layers that learn no statistics
    norm_that_does_more: str = ""  # class of a BatchNorm with a forward of its own
    warnings: Sequence[str] = ()

    @property
    def has_stages(self) -> bool:
        """Whether it is mmpretrain's ResNet and so gives the map of each stage."""
        return self.cfg["type"] == "ResNet"

    @property
    def file_name(self) -> str:
        """The name for files: ``timm-resnet10t``."""
        return re.sub(r"[^\w-]", "-", self.name)


_CONVNEXT = {"type": "ConvNeXt", "arch": "tiny", "gap_before_final_norm": False}
_SWIN = {"type": "SwinTransformer", "arch": "tiny", "pad_small_map": True}
_VIT = {
    "type": "VisionTransformer",
    "arch": "deit-small",
    "img_size": 224,
    "patch_size": 16,
    "out_type": "avg_featmap",
}
_KNOWN = (
    *(
        Backbone(f"resnet{depth}", {"type": "ResNet", "depth": depth}, channels, is_resnet=True)
        for depth, channels in ((18, 512), (34, 512), (50, 2048), (101, 2048))
    ),
    Backbone("convnext-tiny", _CONVNEXT, 768),
    Backbone("swin-tiny", _SWIN, 768),
    Backbone("vit-small", _VIT, 384, gives_map=False),
)
BACKBONES = {backbone.name: backbone for backbone in _KNOWN}
"""Backbones of mmpretrain by name."""


def check_backbone_name(name: str) -> None:
    """Raise ValueError unless it is a key of ``BACKBONES``, timm/NAME or package.module:function.

    Whether timm has the network, or the function works, is not looked at. Other programs could not
    import a function of ``__main__``, a notebook or a script, and so not read the weights.
    """
    module, _, function = name.partition(":")
    if module == "__main__":
        raise UserValueError(
            f"backbone must be a function that later commands can import, but got {name}; write it "
            f"into a file of its own, such as my_net.py, and give my_net:{function}."
        )
    if name in BACKBONES or timm_model(name) or ":" in name:
        return
    raise UserValueError(
        f"backbone must be one of {', '.join(BACKBONES)}, {timm_network('NAME')} or "
        f"package.module:function, but got {name!r}{meant(name, BACKBONES)}"
    )
