"""Small models that contrast boxes of views, and what a step of them gets."""

import torch
from helpers.models import small_ssprl

PX = 32
BACKBONE = {
    **small_ssprl.BACKBONE,
    "num_stages": 2,
    "strides": (1, 2),
    "dilations": (1, 1),
    "out_indices": (1,),
}
INSLOC = {
    "layout": {"image_px": PX, "levels": []},
    "backbone": BACKBONE,
    "neck": {
        **{"in_channels": 16, "fpn_channels": 6, "num_convs": 1, "num_fcs": 1},
        **{"hid_channels": 8, "out_channels": 4, "sampling_ratio": 2},
    },
}
MASKCO = {
    "layout": {"image_px": PX, "levels": []},
    "backbone": BACKBONE,
    "neck": {"in_channels": 16, "hid_channels": 8, "out_channels": 4},
    "mask_channels": 6,
}
CONFIGS = {"InsLoc": INSLOC, "MaskCo": MASKCO}
CROPS = {"InsLoc": {}, "MaskCo": {"box_px": (8, 12), "num_others": 2}}
"""Fields of the transforms."""


def random_boxes(shape, generator, px=PX):
    """Boxes (*shape, 4) of 8 px a side or more inside a view."""
    low = torch.rand(*shape, 2, generator=generator) * (px - 16)
    return torch.cat([low, low + 8 + torch.rand(low.shape, generator=generator) * 8], dim=-1)


def canvases_of(batch=4, seed=0):
    """Inputs and data_samples of a step of InsLoc."""
    generator = torch.Generator().manual_seed(seed)
    views = torch.randn(2, batch, 3, PX, PX, generator=generator)
    return [views], {"boxes": random_boxes((2, batch, 2), generator)}


def regions_of(batch=4, seed=0, num_others=2):
    """Inputs and data_samples of a step of MaskCo, of images of 80 px, some views mirrored."""
    generator = torch.Generator().manual_seed(seed)
    views = torch.randn(2, batch, 3, PX, PX, generator=generator)
    low = 20 * torch.rand(2, batch, 2, generator=generator)
    places = torch.cat([low, low + 40 + 20 * torch.rand(low.shape, generator=generator)], dim=-1)
    places[0, ::2] = places[0, ::2][:, [2, 1, 0, 3]]
    places[1, 1::2] = places[1, 1::2][:, [2, 1, 0, 3]]
    boxes = 22 + random_boxes((batch, 1 + num_others), generator, px=36)
    return [views], {"places": [places], "boxes": boxes}


STEPS = {"InsLoc": canvases_of, "MaskCo": regions_of}


def double_step(kind, batch, seed, images):
    """Inputs and data_samples in float64 of some images of a batch."""
    (views,), samples = STEPS[kind](batch, seed)
    if kind == "InsLoc":
        part = {"boxes": samples["boxes"][:, images].double()}
    else:
        places = [samples["places"][0][:, images].double()]
        part = {"places": places, "boxes": samples["boxes"][images].double()}
    return [views.double()[:, images]], part
