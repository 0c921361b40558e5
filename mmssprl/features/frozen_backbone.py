"""A backbone that is only looked through: weights, pooling, and how its images are prepared.

Legend: B images, C features, H, W height and width, px side of the square that the backbone sees.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from mmengine.config import Config
from torch import Tensor, nn
from torchvision.transforms import v2

from ..functional.pooling import pool
from ..pyramid import ViewLayout, check_px
from ..weights import find_config, load_backbone
from .crops import RESIZE_RATIO

DEFAULT_IMAGE_PX = 224
IMAGENET_MEAN = (123.675, 116.28, 103.53)
IMAGENET_STD = (58.395, 57.12, 57.375)


class FrozenBackbone(nn.Module):
    """A backbone in eval mode; it maps normalised images (B, 3, H, W) to features (B, C).

    The features are the global average pool of the backbone's last output: what ``probe`` scores
    and ``embed`` writes, what timm returns with ``num_classes=0``, and torchvision with
    ``fc = Identity()``. Gradients flow, so that it can also be trained further.

    Args:
        backbone: Takes float32 (B, 3, H, W).
        layout: The views that it was trained with; None if the config names none.
        image_px: Side of the square that it sees of an image; None takes the layout's image
            views, or 224.
        mean: Per channel, in 0-255, subtracted before the division by ``std``.
        std: Per channel, in 0-255.
    """

    def __init__(
        self,
        backbone: nn.Module,
        *,
        layout: ViewLayout | None = None,
        image_px: int | None = None,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.layout = layout
        if image_px is None:
            image_px = layout.image_px if layout else DEFAULT_IMAGE_PX
        check_px("image_px", image_px)
        self.image_px = image_px
        self.mean = tuple(map(float, mean))
        self.std = tuple(map(float, std))

    def forward(self, images: Tensor) -> Tensor:
        """Return features (B, C) of normalised images (B, 3, H, W), see ``image_transform``."""
        return pool(self.backbone(images))

    def normalise(self, images: Tensor) -> Tensor:
        """Return float32 images for ``forward`` of uint8 RGB images (..., 3, H, W)."""
        shift = torch.tensor(self.mean, device=images.device).view(3, 1, 1)
        scale = torch.tensor(self.std, device=images.device).view(3, 1, 1)
        return (images - shift) / scale


def load_frozen_backbone(
    weights: str | Path,
    config: str | Path | None = None,
    *,
    image_px: int | None = None,
    seed: int = 0,
) -> FrozenBackbone:
    """Build the backbone of a file of weights, in eval mode on the CPU.

    Args:
        weights: Backbone weights (of ``pretrain``, ``export`` or ``convert``), a training
            checkpoint, ``'random'``, or ``'supervised'`` (torchvision's, for ResNets).
        config: Config with ``model.backbone``; None takes the one beside the weights.
        image_px: Side of the square that it sees; None takes the config's image views, or 224.
        seed: Of random weights.

    Raises:
        ValueError: Weights and config that do not fit each other, or no config to be found.
        FileNotFoundError: A file that does not exist.
    """
    cfg = find_config(str(weights), None if config is None else str(config))
    return frozen_backbone(str(weights), cfg, image_px=image_px, seed=seed)


def frozen_backbone(
    weights: str, cfg: Config, *, image_px: int | None = None, seed: int = 0
) -> FrozenBackbone:
    """As ``load_frozen_backbone``, for a config that has been read."""
    model = as_frozen(load_backbone(weights, cfg, seed=seed), cfg, image_px=image_px)
    # mmpretrain's train() returns nothing, so eval() does not chain.
    model.eval()
    return model


def as_frozen(backbone: nn.Module, cfg: Config, *, image_px: int | None = None) -> FrozenBackbone:
    """Wrap a backbone with the views and the normalisation of its config; its mode is kept."""
    layout = cfg.model.get("layout") or cfg.get("layout")
    preprocessor = cfg.model.get("data_preprocessor") or cfg.get("data_preprocessor") or {}
    return FrozenBackbone(
        backbone,
        layout=ViewLayout.build(layout) if layout else None,
        image_px=image_px,
        mean=preprocessor.get("mean") or IMAGENET_MEAN,
        std=preprocessor.get("std") or IMAGENET_STD,
    )


def image_transform(model: FrozenBackbone) -> v2.Transform:
    """Return how an image becomes a model's input, as ``probe`` and ``embed`` do it.

    The transform takes a PIL image, an array (H, W, 3), or a uint8 tensor (3, H, W), RGB or gray,
    and returns float32 (3, px, px): the shorter side resized to 256/224 of px, the centre cut out,
    mean and deviation taken off. Stack its results for ``model``.
    """
    px = model.image_px
    return v2.Compose(
        [
            v2.ToImage(),
            v2.RGB(),
            v2.Resize([round(px * RESIZE_RATIO)], antialias=True),
            v2.CenterCrop([px, px]),
            v2.ToDtype(torch.float32),
            v2.Normalize(model.mean, model.std),
            v2.ToPureTensor(),
        ]
    )
