"""Multi-label classification on a pre-trained backbone: linear probing and fine-tuning.

Legend: B images, C features, K classes.
"""

from typing import Any

import torch
from mmpretrain.models import ImageClassifier
from torch import Tensor, nn
from torch.nn import functional as F

from ..functional.pooling import pool
from ..registry import MODELS


@MODELS.register_module()
class MultiLabelClassifier(ImageClassifier):
    """A backbone, a global average pool and a multi-label head.

    Args:
        frozen_backbone: True, for linear probing, freezes the backbone: it gets no gradient and
            stays in eval mode, so its running statistics do not change. False trains it, too, as
            the paper does. (The released semi-supervised script computes features without
            gradient, so it never fine-tunes.)
        kwargs: Arguments of mmpretrain's ``ImageClassifier``, except ``neck``.
    """

    def __init__(self, *, frozen_backbone: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.frozen_backbone = frozen_backbone
        if frozen_backbone:
            self.backbone.requires_grad_(False)

    def train(self, mode: bool = True) -> "MultiLabelClassifier":
        """Set the mode, but keep a frozen backbone in eval mode."""
        super().train(mode)
        if self.frozen_backbone:
            self.backbone.eval()
        return self

    def extract_feat(self, inputs: Tensor, stage: str = "neck") -> tuple[Tensor]:
        """Return the pooled features (B, C) of images (B, 3, H, W), in a tuple."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen_backbone):
            return (pool(self.backbone(inputs)),)


@MODELS.register_module()
class MultiLabelLoss(nn.Module):
    """Sigmoid binary cross entropy, summed over classes, mean over images.

    Targets below 0 ("difficult" objects of VOC) are ignored.
    """

    def forward(self, logits: Tensor, target: Tensor, avg_factor: float | None = None) -> Tensor:
        """Compute the loss, a float32 scalar >= 0.

        Args:
            logits: (B, K), with gradient.
            target: (B, K), 1 present, 0 absent, -1 ignored.
            avg_factor: Divisor of the sum; None is B.
        """
        known = (target >= 0).float()
        total = F.binary_cross_entropy_with_logits(
            logits.float(), target.clamp(min=0).float(), weight=known, reduction="sum"
        )
        return total / (len(logits) if avg_factor is None else avg_factor)
