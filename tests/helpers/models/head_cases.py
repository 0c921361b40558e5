"""Scores, heads and embeddings that are small enough for float64 loops."""

from dataclasses import replace

import torch
from torch.nn import functional as F

from mmssprl.models import SinkhornHead
from mmssprl.pyramid import PyramidLevel, ViewLayout

LAYOUT = ViewLayout(image_px=8, small_px=4, levels=(PyramidLevel(2, 8, 4), PyramidLevel(3, 12, 4)))
SAMPLED = replace(
    LAYOUT,
    levels=[replace(level, num_sampled=n) for level, n in zip(LAYOUT.levels, (2, 3), strict=True)],
)


def make_head(layout=LAYOUT, **kwargs):
    torch.manual_seed(0)
    sizes = {"in_channels": 6, "num_prototypes": 5, "num_patch_prototypes": (4, 3)}
    return SinkhornHead(layout, **{**sizes, **kwargs})


def embeddings_of(layout, seed=0, batch=3):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(layout.num_image_views, 1)] + [(2, level.num_patches) for level in layout.levels]
    return [
        F.normalize(torch.randn(*shape, batch, 6, generator=generator), dim=-1) for shape in shapes
    ]


def cosines(num_rows, num_prototypes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    z = F.normalize(torch.randn(num_rows, 8, generator=generator))
    c = F.normalize(torch.randn(num_prototypes, 8, generator=generator))
    return z @ c.T
