"""Small models of the MoCo family and their steps."""

import copy

import torch
from helpers.models import small_regions
from helpers.models.small_ssprl import BACKBONE
from reference import unit_rows

from mmssprl.models import GroupedBatchNorm, NegativeQueue
from mmssprl.registry import MODELS

LAYOUT = {"image_px": 16, "levels": []}
DETCO_LAYOUT = {"image_px": 32, "num_small": 2, "small_px": 36, "levels": []}
DETCO = {
    "layout": DETCO_LAYOUT,
    "backbone": {
        **BACKBONE,
        "num_stages": 3,
        "strides": (1, 2, 2),
        "dilations": (1, 1, 1),
        "out_indices": (2,),
    },
    "neck": {"in_channels": 4 * BACKBONE["base_channels"], "hid_channels": 16, "out_channels": 4},
    "level_weights": (0.25, 0.5, 1.0),
    "patch_px": 10,
}
"""Three levels, and jigsaws of 36 px."""
OWN = {"DetCo": DETCO, **small_regions.CONFIGS}


def model_cfg(kind="MoCo", **fields):
    neck = {"in_channels": 8, "hid_channels": 8, "out_channels": 4}
    layout = {"layout": LAYOUT, "backbone": BACKBONE, "neck": neck}
    common = {"queue_length": 12, "momentum": 0.9, **layout}
    return {"type": kind, **common, **OWN.get(kind, {}), **fields}


def make_model(kind="MoCo", seed=0, **fields):
    torch.manual_seed(seed)
    model = MODELS.build(model_cfg(kind, **fields))
    generator = torch.Generator().manual_seed(0)
    for queue in model.modules():  # all begin with the same rows
        if isinstance(queue, NegativeQueue):
            queue.keys.copy_(unit_rows(torch.randn(queue.keys.shape, generator=generator)))
    return model


def views_of(batch=4, seed=0, sizes=(16,)):
    """Inputs of a step: groups (2, B, 3, px, px), of DetCo of 32 and 36 px."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(2, batch, 3, px, px, generator=generator) for px in sizes]


def step_of(kind="MoCo", batch=4, seed=0):
    """Inputs and data_samples of a step."""
    if kind in small_regions.CONFIGS:
        return small_regions.STEPS[kind](batch, seed)
    return views_of(batch, seed, sizes=(32, 36) if kind == "DetCo" else (16,)), None


def ungrouped(module):
    """A copy with one group per batch, which a test may run on any part of it."""
    module = copy.deepcopy(module)
    for norm in module.modules():
        if isinstance(norm, GroupedBatchNorm):
            norm.num_groups = 1
    return module
