"""A small model, and batches for it."""

import torch

from mmssprl.pyramid import ViewLayout

LAYOUT = {
    "image_px": 64,
    "num_small": 1,
    "small_px": 32,
    "levels": [{"grid": 2, "resize_px": 64, "patch_px": 32}],
}


def narrow_resnet(num_stages):
    """A ResNet with 8 channels in its first stage. Each further stage halves the side."""
    # Small: float16 convolutions have no fast kernel on a CPU.
    widths = {"depth": 18, "stem_channels": 8, "base_channels": 8, "num_stages": num_stages}
    stages = {"strides": (1, 2, 2)[:num_stages], "dilations": (1,) * num_stages}
    return {"type": "mmpretrain.ResNet", **widths, **stages, "out_indices": (num_stages - 1,)}


BACKBONE = narrow_resnet(1)


def model_cfg(backbone, in_channels, **head):
    neck = {"type": "MultiHeadNeck", "in_channels": in_channels}
    neck |= {"hid_channels": 16, "out_channels": 8}
    sizes = {"in_channels": 8, "num_prototypes": 6, "num_patch_prototypes": 5}
    head = {"type": "SinkhornHead", **sizes, **head}
    return {"type": "SSPRL", "layout": LAYOUT, "backbone": backbone, "neck": neck, "head": head}


def packed_batch(layout, batch=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(batch, g.num_crops, 3, g.px, g.px) for g in ViewLayout.build(layout).groups]
    options = {"generator": generator, "dtype": torch.uint8}
    return {"inputs": [torch.randint(0, 256, shape, **options) for shape in shapes]}
