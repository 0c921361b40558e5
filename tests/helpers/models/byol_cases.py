"""A BYOL small enough for many tests, and batches for it."""

import torch
from helpers.models.small_ssprl import BACKBONE

from mmssprl.registry import MODELS

LAYOUT = {"image_px": 16, "levels": []}
MODEL = {
    "type": "BYOL",
    "layout": LAYOUT,
    "backbone": BACKBONE,
    "neck": {"in_channels": 8, "hid_channels": 12, "out_channels": 4},
}


def build_byol(training_length=100, seed=0, **changes):
    """The model with weights of its own; two ranks and one process build it alike."""
    torch.manual_seed(seed)
    model = MODELS.build({**MODEL, **changes})
    model.on_training_length(training_length)
    return model


def views_of(seed, batch=6):
    """The two views (2, B, 3, 16, 16) of some images."""
    return torch.randn(2, batch, 3, 16, 16, generator=torch.Generator().manual_seed(seed))


def sgd_step(model, views, optimizer):
    """Take one step; return the loss."""
    loss = sum(model([views], mode="loss").values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss.detach())
