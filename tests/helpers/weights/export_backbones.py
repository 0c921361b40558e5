"""Backbones to export, small ones and odd ones, with their configs."""

import torch
from mmengine.config import Config

from mmssprl.weights import load_backbone, write_description

NARROW = (
    "type='ResNet', depth=18, stem_channels=16, base_channels=16, num_stages=3, "
    "strides=(1, 2, 2), dilations=(1, 1, 1), out_indices=(2,)"
)
VIT = (
    "type='VisionTransformer', img_size=32, patch_size=16, out_type='avg_featmap', "
    "arch=dict(embed_dims=24, num_layers=1, num_heads=2, feedforward_channels=24)"
)
BACKBONES = {
    "narrow": NARROW,
    "resnet18": "type='ResNet', depth=18",
    "bottleneck": "type='ResNet', depth=50, stem_channels=16, base_channels=16, num_stages=2, "
    "strides=(1, 2), dilations=(1, 1), out_indices=(1,)",
    "vit": VIT,
    "deep_stem": "type='ResNet', depth=18, deep_stem=True",
    "subclass": "type='ResNetV1d', depth=50",
    "caffe": "type='ResNet', depth=50, stem_channels=16, base_channels=16, style='caffe', "
    "strides=(1, 2, 2, 1), dilations=(1, 1, 1, 2), norm_cfg=dict(type='SyncBN', eps=1e-3)",
    "group_norm": "type='ResNet', depth=18, norm_cfg=dict(type='GN', num_groups=2)",
    "eps": "type='ResNet', depth=18, norm_cfg=dict(type='BN', eps=0.01)",
    "expansion": "type='ResNet', depth=50, expansion=2",
}


def write_weights(folder, name):
    """A backbone whose every tensor differs from an initial one; returns it and its file."""
    (folder / f"{name}.py").write_text(f"model = dict(backbone=dict({BACKBONES[name]}))")
    backbone = load_backbone("random", Config.fromfile(folder / f"{name}.py"))
    generator = torch.Generator().manual_seed(1)
    for value in backbone.state_dict().values():
        if value.dim() == 1:
            value.copy_(0.5 + torch.rand(value.shape, generator=generator))
        elif value.dim() == 0:
            value.fill_(7)
    torch.save(backbone.state_dict(), folder / f"{name}.pth")
    write_description(folder / f"{name}.pth", Config.fromfile(folder / f"{name}.py"))
    return backbone, str(folder / f"{name}.pth")
