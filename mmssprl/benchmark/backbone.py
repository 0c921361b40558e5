"""Give the model of a transfer config the backbone that was pre-trained."""

from collections.abc import Mapping
from typing import Any

import torch
from mmengine.config import Config

from ..engine.initial_weights import build_backbone
from ..errors import UserValueError
from ..models.ssprl import pool

_RESNET_FIELDS = (
    *("depth", "stem_channels", "base_channels", "num_stages", "strides", "dilations"),
    *("style", "deep_stem", "avg_down"),
)
_EXPANSIONS = {18: 1, 34: 1}
_BOTTLENECK_EXPANSION = 4
_PROBE_PX = 224
"""Side of the image that shows the number of features; not every transformer takes another."""


def adapt_backbone(cfg: Config, backbone: Mapping[str, Any]) -> None:
    """Replace ``cfg.model.backbone`` by a pre-trained one and fit what reads its outputs.

    Classification takes any mmpretrain backbone. Detection and segmentation take ResNets, whose
    stages keep the protocol's form: all of them to the FPN, or the last ones dilated to stride 8.

    Args:
        cfg: Config of a protocol; changed in place.
        backbone: ``model.backbone`` of the pre-training config.

    Raises:
        ValueError: A backbone that the protocol cannot take.
    """
    scope = cfg.get("default_scope", "mmssprl")
    if scope == "mmssprl":
        cfg.model.backbone = {k: v for k, v in backbone.items() if k != "init_cfg"}
        cfg.model.head.in_channels = _num_features(cfg)
        return
    if backbone["type"].split(".")[-1] != "ResNet":
        raise UserValueError(
            f"the configs of {scope} are for ResNets, but the backbone is {backbone['type']}; "
            "write a config of your own for it, or leave the protocol out."
        )
    own = {key: backbone[key] for key in _RESNET_FIELDS if key in backbone}
    for key in _RESNET_FIELDS:
        cfg.model.backbone.pop(key, None)
    cfg.model.backbone.update(own)
    num_stages = own.get("num_stages", 4)
    cfg.model.backbone.out_indices = tuple(range(num_stages))
    expansion = _EXPANSIONS.get(own["depth"], _BOTTLENECK_EXPANSION)
    channels = [own.get("base_channels", 64) * 2**i * expansion for i in range(num_stages)]
    if scope == "mmdet":
        _fit_pyramid(cfg.model, channels)
    else:
        cfg.model.backbone.strides = (1, 2, 1, 1)[:num_stages]
        cfg.model.backbone.dilations = (1, 1, 2, 4)[:num_stages]
        for head, index in (("decode_head", num_stages - 1), ("auxiliary_head", num_stages - 2)):
            if cfg.model[head] is not None:
                cfg.model[head].in_index = index
                cfg.model[head].in_channels = channels[index]


def _fit_pyramid(model: Any, channels: list[int]) -> None:
    """Let the FPN read all stages; levels that the config adds on top stay as many."""
    extra = model.neck.num_outs - len(model.neck.in_channels)
    model.neck.in_channels = channels
    model.neck.num_outs = len(channels) + extra
    strides = [4 * 2**i for i in range(model.neck.num_outs)]
    model.rpn_head.anchor_generator.strides = strides
    for extractor in ("bbox_roi_extractor", "mask_roi_extractor"):
        model.roi_head[extractor].featmap_strides = strides[: len(channels)]


def _num_features(cfg: Config) -> int:
    backbone = build_backbone(cfg)
    backbone.eval()
    with torch.inference_mode():
        return pool(backbone(torch.zeros(1, 3, _PROBE_PX, _PROBE_PX))).shape[1]
