"""Networks that return tokens, as those of transformers."""

from functools import partial
from types import SimpleNamespace

import timm
import torch
from torch import nn

PATCH_PX = 16


class Tokens(nn.Module):
    """A small ViT with special tokens in front of the patches and behind them."""

    def __init__(self, in_front, behind):
        super().__init__()
        self.in_front = nn.Parameter(torch.randn(1, in_front, 64))
        self.behind = nn.Parameter(torch.randn(1, behind, 64))
        self.patches = nn.Conv2d(3, 64, PATCH_PX, PATCH_PX)
        layer = timm.models.vision_transformer.Block
        self.blocks = nn.Sequential(*(layer(64, num_heads=4) for _ in range(3)))
        self.norm = nn.LayerNorm(64)
        self.config = SimpleNamespace(patch_size=PATCH_PX)

    def forward(self, images):
        patches = self.patches(images).flatten(2).transpose(1, 2)
        special = [each.expand(len(images), -1, -1) for each in (self.in_front, self.behind)]
        tokens = torch.cat([special[0], patches, special[1]], dim=1)
        return SimpleNamespace(last_hidden_state=self.norm(self.blocks(tokens)))


plain = partial(Tokens, 0, 0)
with_class = partial(Tokens, 1, 0)
with_registers = partial(Tokens, 5, 0)
with_one_behind = partial(Tokens, 0, 1)
with_detections = partial(Tokens, 1, 100)
