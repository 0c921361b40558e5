"""A model small enough for many tests, and batches for it."""

import torch

from mmssprl.pyramid import ViewLayout

LAYOUT = {
    "image_px": 64,
    "num_small": 1,
    "small_px": 32,
    "levels": [{"grid": 2, "resize_px": 64, "patch_px": 32}],
}


def model_cfg(backbone, in_channels, **kwargs):
    return {
        "type": "SSPRL",
        "layout": LAYOUT,
        "backbone": backbone,
        "neck": {
            "type": "MultiHeadNeck",
            "in_channels": in_channels,
            "hid_channels": 16,
            "out_channels": 8,
        },
        "head": {
            "type": "SinkhornHead",
            "in_channels": 8,
            "num_prototypes": 6,
            "num_patch_prototypes": 5,
            **kwargs,
        },
    }


def packed_batch(layout, batch=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {
        "inputs": [
            torch.randint(
                0, 256, (batch, g.num_crops, 3, g.px, g.px), generator=generator, dtype=torch.uint8
            )
            for g in ViewLayout.build(layout).groups
        ]
    }


# Small: float16 convolutions have no fast kernel on a CPU.
BACKBONE = {
    "type": "mmpretrain.ResNet",
    "depth": 18,
    "stem_channels": 8,
    "base_channels": 8,
    "num_stages": 1,
    "strides": (1,),
    "dilations": (1,),
    "out_indices": (0,),
}
