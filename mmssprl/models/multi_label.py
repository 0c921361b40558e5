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
        frozen_backbone: Keep the backbone as it is, as linear probing asks: no gradient, and eval
            mode whatever the mode of the model, so that running statistics do not move. False
            trains it too. (The released semi-supervised script computes the features without
            gradient and so never fine-tunes; the paper does.)
        kwargs: As mmpretrain's ``ImageClassifier``, without ``neck``.
    """

    def __init__(self, *, frozen_backbone: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.frozen_backbone = frozen_backbone
        if frozen_backbone:
            self.backbone.requires_grad_(False)

    def train(self, mode: bool = True) -> "MultiLabelClassifier":
        """Set the mode, but leave a frozen backbone in eval mode."""
        super().train(mode)
        if self.frozen_backbone:
            self.backbone.eval()
        return self

    def extract_feat(self, inputs: Tensor, stage: str = "neck") -> tuple[Tensor]:
        """Return pooled features (B, C) of images (B, 3, H, W), as the last of a tuple."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen_backbone):
            return (pool(self.backbone(inputs)),)


@MODELS.register_module()
class MultiLabelLoss(nn.Module):
    """Sigmoid binary cross entropy, summed over classes, mean over images.

    Entries of the target below 0 ("difficult" objects of VOC) do not count.
    """

    def forward(self, logits: Tensor, target: Tensor, avg_factor: float | None = None) -> Tensor:
        """Compute the loss in float32, a scalar >= 0.

        Args:
            logits: (B, K), gradient flows.
            target: (B, K), 1 present, 0 absent, -1 not counted.
            avg_factor: What the sum is divided by; None divides by B.
        """
        known = (target >= 0).float()
        total = F.binary_cross_entropy_with_logits(
            logits.float(), target.clamp(min=0).float(), weight=known, reduction="sum"
        )
        return total / (len(logits) if avg_factor is None else avg_factor)
