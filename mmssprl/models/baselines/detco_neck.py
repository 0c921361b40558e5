"""The projections of DetCo.

Legend: B images, L levels (stages of the backbone), C_i features of level i, P squares of a jigsaw,
D embedding size.
"""

from collections.abc import Sequence

import torch
from mmengine.model import BaseModule
from torch import Tensor, nn

from ...registry import MODELS
from .two_views import unit


@MODELS.register_module()
class DetCoNeck(BaseModule):
    """A projection per level for images (G_i) and one for jigsaws (P_i), each as MoCo v2's.

    Args:
        in_channels: C_i of the last level; each one before it has half as many.
        num_levels, num_patches: L, and P, whose features enter P_i side by side: the model's.
        hid_channels: Between the two layers. ASSUMPTION: 2,048 in all; the port: the input's width.
        out_channels: D. Published: 128.
    """

    def __init__(
        self,
        in_channels: int,
        num_levels: int,
        num_patches: int,
        hid_channels: int,
        out_channels: int,
    ) -> None:
        super().__init__()
        widths = [in_channels // 2**i for i in reversed(range(num_levels))]
        self.of_images, self.of_patches = (
            nn.ModuleList(
                nn.Sequential(
                    nn.Linear(num * width, hid_channels),
                    nn.ReLU(),
                    nn.Linear(hid_channels, out_channels),
                )
                for width in widths
            )
            for num in (1, num_patches)
        )

    def forward(self, images: Sequence[Tensor], patches: Sequence[Tensor]) -> list[Tensor]:
        """Embed the features of each level, (B, C_i) of images and (B, P, C_i) of patches.

        Returns unit vectors (B, L, D) of the images, then those of the patches.
        """
        sides = (self.of_images, images), (self.of_patches, [x.flatten(1) for x in patches])
        return [torch.stack([unit(h(x)) for h, x in zip(*s, strict=True)], 1) for s in sides]
