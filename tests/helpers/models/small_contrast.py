"""Small models of the MoCo family, their steps, and mmpretrain's own on the same weights."""

import copy

import torch
from helpers.models import small_regions
from helpers.models.small_ssprl import BACKBONE
from mmpretrain.registry import MODELS as MMPRETRAIN
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


def mmpretrain_twin(model, queues, **fields):
    """mmpretrain's model of the name with the same weights and queues.

    Args:
        model: Ours.
        queues: Names of our queues by those of mmpretrain's buffers, which are (D, K).
        fields: Further ones of mmpretrain's class.
    """
    kind = type(model).__name__
    cfg = model_cfg()
    neck = {"MoCo": "MoCoV2Neck", "DenseCL": "DenseCLNeck"}[kind]
    head = {"type": "mmpretrain.ContrastiveHead", "temperature": model.temperature}
    twin = MMPRETRAIN.build(
        {
            "type": f"mmpretrain.{kind}",
            "backbone": cfg["backbone"],
            "neck": {"type": f"mmpretrain.{neck}", **cfg["neck"]},
            "head": {**head, "loss": {"type": "mmpretrain.CrossEntropyLoss"}},
            "queue_len": cfg["queue_length"],
            "feat_dim": 4,
            "momentum": 1 - model.momentum,
            **fields,
        }
    )
    twin.backbone.load_state_dict(model.backbone.state_dict())
    twin.neck.load_state_dict(model.neck.state_dict())
    for theirs, ours in queues.items():
        getattr(twin, theirs).copy_(getattr(model, ours).keys.T)
    return twin


def largest_difference(model, twin, queues, steps=3):
    """Of losses, query weights and queues, over steps of SGD with the same views in float64."""
    model, twin = model.double(), twin.double()
    differences = []
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.5, momentum=0.9) for m in (model, twin)]
    for step in range(steps):
        views = [views_of(seed=step)[0].double()]
        losses = []
        for optimizer, m, inputs in zip(
            optimizers, (model, twin), (views, list(views[0])), strict=True
        ):
            terms = m.loss(inputs, None)
            optimizer.zero_grad()
            sum(terms.values()).backward()
            optimizer.step()
            losses.append(torch.stack(list(terms.values())).detach())
        pairs = [losses, *zip(model.parameters(), twin.parameters(), strict=False)]
        pairs = [(a.detach(), b.detach()) for a, b in pairs]
        pairs += [(getattr(model, b).keys.T, getattr(twin, a)) for a, b in queues.items()]
        differences += [float((a - b).abs().max()) for a, b in pairs]
    return max(differences)
