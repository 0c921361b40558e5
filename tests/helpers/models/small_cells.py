"""A small model of ``SSPRLCells``, batches with places for it, and embeddings for its head."""

import torch
from helpers.models.small_ssprl import BACKBONE, model_cfg, packed_batch
from torch import nn
from torch.nn import functional as F

from mmssprl.models import CellHead
from mmssprl.registry import MODELS

LAYOUT = {"image_px": 32, "num_small": 4, "small_px": 16, "levels": [], "cells": [2, 1]}
SWAV = {**LAYOUT, "cells": []}


class Pixels(nn.Module):
    """A backbone whose map is the image itself."""

    def forward(self, images):
        return (images,)


def make_model(layout=LAYOUT, head=None, **options):
    """SSPRLCells, or SSPRL for a layout without cells."""
    torch.manual_seed(0)
    cfg = {**model_cfg(dict(BACKBONE), 8, **(head or {})), "layout": layout}
    if layout["cells"]:
        cfg |= {"type": "SSPRLCells", "head": {**cfg["head"], "type": "CellHead", **(head or {})}}
    return MODELS.build({**cfg, **options})


def batch_of(seed=0, with_pairs=True):
    """Random pixels of four images of 100 px, and places like those of crops."""
    generator = torch.Generator().manual_seed(seed)

    def draw(num, low, high):
        sides = low + (high - low) * torch.rand(4, num, 2, generator=generator)
        corners = (100 - sides) * torch.rand(4, num, 2, generator=generator)
        return torch.cat([corners, corners + sides], dim=-1)

    places = [draw(2, 50, 100), draw(4, 20, 40) + (0 if with_pairs else 1000)]
    return {**packed_batch(LAYOUT, 4, seed), "data_samples": {"places": places}}


def step(model, batch):
    """Losses and gradients of one step of plain gradient descent."""
    model.zero_grad()
    losses = model(**model.data_preprocessor(batch, training=True), mode="loss")
    sum(losses.values()).backward()
    grads = {name: p.grad.clone() for name, p in model.named_parameters()}
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
    return {name: loss.detach() for name, loss in losses.items()}, grads


def head_and_embeddings(seed=0, without=(), **options):
    """``without`` are those of the four images that have no pair."""
    torch.manual_seed(0)
    sizes = {"in_channels": 6, "num_prototypes": 5, "num_patch_prototypes": (4, 3)}
    generator = torch.Generator().manual_seed(seed)
    shapes = [(6, 1), (3, 2), (3, 1)]
    z = [F.normalize(torch.randn(*s, 4, 6, generator=generator), dim=-1) for s in shapes]
    for each in z[1:]:
        is_pair = torch.rand(2, *each.shape[1:3], generator=generator) < 0.6
        is_pair[:, :, list(without)] = False
        each[:2] *= is_pair[..., None]
    return CellHead(LAYOUT, **{**sizes, **options}), z
