"""The features by which an exported file is compared with its backbone."""

import math
from collections.abc import Callable, Iterator

import torch
from mmengine.config import Config
from mmpretrain.models import ResNet
from torch import Tensor, nn

from ..functional.pooling import pool
from ..pyramid import ViewLayout
from .description import channels_of

Features = tuple[Tensor, Tensor]
"""The last output (N, C, H, W) or (N, C), and the pooled features (N, C)."""


class Pooled(nn.Module):
    """Return the last output of a backbone, and the same pooled as in training."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, images: Tensor) -> Features:
        """Take normalised images (N, C, H, W)."""
        outputs = self.backbone(images)
        last = outputs if isinstance(outputs, Tensor) else outputs[-1]
        return last, pool(last)


@torch.no_grad()
def largest_difference(
    run: Callable[[Tensor], Features], backbone: nn.Module, cfg: Config
) -> float:
    """Compare the features that ``run`` reads from a file with the features of its backbone.

    The difference is relative to the largest feature; infinity for other shapes and NaN.
    """
    pooled = Pooled(backbone)
    largest = 0.0
    for images in random_images(backbone, cfg):
        for got, want in zip(run(images), pooled(images), strict=True):
            if got.shape != want.shape:
                return math.inf

            difference = float((got - want).abs().max() / want.abs().max().clamp(min=1e-12))
            if not math.isfinite(difference):
                return math.inf
            largest = max(largest, difference)
    return largest


def random_images(backbone: nn.Module, cfg: Config) -> Iterator[Tensor]:
    """Yield images of the size that the backbone was built for, of the image views, or 224 px.

    Then other ones, because a traced graph can hold the first shape as constants.
    """
    spec = cfg.model.backbone
    layout = cfg.model.get("layout")
    channels = spec.get("in_channels") or (spec.get("options") or {}).get("in_chans")
    channels = channels or channels_of(cfg)
    side = ViewLayout.build(layout).image_px if layout else 224
    height, width = map(int, getattr(backbone, "img_size", (side, side)))
    generator = torch.Generator().manual_seed(0)
    yield torch.randn(2, channels, height, width, generator=generator)

    if isinstance(backbone, ResNet):  # the others may take one size only
        height = 160
        width = 192
    yield torch.randn(3, channels, height, width, generator=generator)
