"""A tiny pre-training config and an image, for the tests of the pictures."""

import torch
from mmengine.config import Config

CONFIG = """
default_scope = "mmssprl"
layout = dict(
    image_px=32,
    num_small=3,
    small_px=16,
    levels=[
        dict(grid=2, resize_px=64, patch_px=16),
        dict(grid=3, resize_px=90, patch_px=20),
    ],
)
model = dict(
    type="SSPRL",
    layout=layout,
    data_preprocessor=dict(type="PyramidPreprocessor", AUGMENTATION),
    backbone=dict(type="ResNet", depth=18, stem_channels=4, base_channels=4),
    neck=dict(type="MultiHeadNeck", in_channels=32, hid_channels=8, out_channels=8),
    head=dict(type="SinkhornHead", in_channels=8, num_prototypes=20, num_patch_prototypes=10,
              alpha=0.5, beta=(0.25, 0.1), cross_weight=2.0),
)
train_dataloader = dict(
    dataset=dict(
        type="UnlabeledImages",
        data_root="not_there",
        pipeline=[dict(type="PyramidCrop", layout=layout)],
    )
)
"""


def write_config(tmp_path, augmentation):
    path = tmp_path / "tiny_views.py"
    text = CONFIG.replace("AUGMENTATION", augmentation)
    Config.fromstring(text, ".py").dump(path)  # as in a run's folder
    return path


def ramp():
    """An image whose red tells x and whose green tells y."""
    pixels = torch.full((3, 120, 160), 90, dtype=torch.uint8)
    pixels[0] = torch.linspace(0, 255, 160)
    pixels[1] = torch.linspace(0, 255, 120)[:, None]
    return pixels
