"""Small models of the baselines, and inputs of their steps."""

import torch
from helpers.models.small_ssprl import BACKBONE, narrow_resnet
from reference import unit_rows

from mmssprl.models import NegativeQueue, PretrainingModel, baselines
from mmssprl.registry import MODELS

_CLASSES = {name: getattr(baselines, name) for name in baselines.__all__}
KINDS = [name for name, kind in _CLASSES.items() if issubclass(kind, PretrainingModel)]
OF_MOCO = [name for name in KINDS if issubclass(_CLASSES[name], baselines.MoCo)]
PX = 32
LAYOUT = {"image_px": 16, "levels": []}
DETCO_LAYOUT = {"image_px": PX, "num_small": 2, "small_px": 36, "levels": []}
OWN = {
    # Three levels, jigsaws of 36 px.
    "DetCo": {
        "layout": DETCO_LAYOUT,
        "backbone": narrow_resnet(3),
        "neck": {"in_channels": 32, "hid_channels": 16, "out_channels": 4},
        "level_weights": (0.25, 0.5, 1.0),
        "patch_px": 10,
    },
    "InsLoc": {
        "layout": {"image_px": PX, "levels": []},
        "backbone": narrow_resnet(2),
        "neck": {
            **{"in_channels": 16, "fpn_channels": 6, "num_convs": 1, "num_fcs": 1},
            **{"hid_channels": 8, "out_channels": 4, "sampling_ratio": 2},
        },
    },
    "MaskCo": {
        "layout": {"image_px": PX, "levels": []},
        "backbone": narrow_resnet(2),
        "neck": {"in_channels": 16, "hid_channels": 8, "out_channels": 4},
        "mask_channels": 6,
    },
}
CROPS = {"InsLoc": {}, "MaskCo": {"box_px": (8, 12), "num_others": 2}}
"""Arguments of the transforms of methods that contrast boxes."""


def model_cfg(kind="MoCo", **fields):
    neck = {"in_channels": 8, "hid_channels": 8, "out_channels": 4}
    common = {"layout": LAYOUT, "backbone": BACKBONE, "neck": neck}
    if kind in OF_MOCO:
        common |= {"queue_length": 12, "momentum": 0.9}
    return {"type": kind, **common, **OWN.get(kind, {}), **fields}


def make_model(kind="MoCo", seed=0, training_length=100, **fields):
    torch.manual_seed(seed)
    model = MODELS.build(model_cfg(kind, **fields))
    generator = torch.Generator().manual_seed(0)
    for queue in model.modules():  # the same first rows for all
        if isinstance(queue, NegativeQueue):
            queue.keys.copy_(unit_rows(torch.randn(queue.keys.shape, generator=generator)))
    model.on_training_length(training_length)
    return model


def views_of(batch=4, seed=0, sizes=(16,)):
    """Inputs of a step: groups (2, B, 3, px, px)."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(2, batch, 3, px, px, generator=generator) for px in sizes]


def random_boxes(shape, generator, px=PX):
    """Boxes (*shape, 4) inside a view, with sides of at least 8 px."""
    low = torch.rand(*shape, 2, generator=generator) * (px - 16)
    return torch.cat([low, low + 8 + torch.rand(low.shape, generator=generator) * 8], dim=-1)


def step_of(kind="MoCo", batch=4, seed=0, num_others=2):
    """Inputs and data_samples of a step; images of MaskCo have 80 px, and some are mirrored."""
    if kind not in CROPS:
        return views_of(batch, seed, sizes=(32, 36) if kind == "DetCo" else (16,)), None
    generator = torch.Generator().manual_seed(seed)
    views = torch.randn(2, batch, 3, PX, PX, generator=generator)
    if kind == "InsLoc":
        return [views], {"boxes": random_boxes((2, batch, 2), generator)}
    low = 20 * torch.rand(2, batch, 2, generator=generator)
    places = torch.cat([low, low + 40 + 20 * torch.rand(low.shape, generator=generator)], dim=-1)
    for v in (0, 1):
        places[v, v::2] = places[v, v::2][:, [2, 1, 0, 3]]
    boxes = 22 + random_boxes((batch, 1 + num_others), generator, px=36)
    return [views], {"places": [places], "boxes": boxes}
