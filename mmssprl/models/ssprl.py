"""SS-PRL: one backbone, one projection head and one set of prototypes per scale.

Legend: N_g crops per image in resolution group g, B images per rank, V views, P patches per
view, C features.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from mmpretrain.models import BaseSelfSupervisor
from torch import Tensor

from ..pyramid import ViewLayout
from ..registry import MODELS


@MODELS.register_module()
class SSPRL(BaseSelfSupervisor):
    """Self-Supervised Pyramid Representation Learning (WACV 2023, arXiv:2208.14439).

    Args:
        layout: The views of both pyramids; handed to the preprocessor, the neck and the head.
            Give ``PyramidCrop`` of the data pipeline the same.
        backbone: Any mmpretrain backbone whose last output is a feature map (pooled here) or one
            vector per image (for ViT set ``out_type='avg_featmap'`` or ``'cls_token'``).
        neck: ``MultiHeadNeck``.
        head: ``SinkhornHead``.
        data_preprocessor: ``PyramidPreprocessor``.
        init_cfg: Initialisation of the whole model, see mmengine.
    """

    def __init__(
        self,
        layout: ViewLayout | Mapping,
        backbone: Mapping,
        neck: Mapping,
        head: Mapping,
        data_preprocessor: Mapping | None = None,
        init_cfg: dict | None = None,
    ) -> None:
        views = ViewLayout.build(layout)

        def build(cfg: Mapping) -> Any:
            return MODELS.build({"layout": views, **cfg})

        super().__init__(
            backbone=MODELS.build(dict(backbone)),
            neck=build(neck),
            head=build(head),
            data_preprocessor=build({"type": "PyramidPreprocessor", **(data_preprocessor or {})}),
            init_cfg=init_cfg,
        )
        self.layout = views
        # A quarter faster on a CPU, and what tensor cores want on a GPU; values do not change.
        self.backbone.to(memory_format=torch.channels_last)

    def extract_feat(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Run the backbone once per resolution group.

        Args:
            inputs: One tensor (N_g, B, 3, px, px) per group of the layout.

        Returns:
            Pooled features, one tensor per scale: (V_0, 1, B, C), then (2, M_s, B, C).
        """
        features = []
        for crops in inputs:
            images = crops.flatten(0, 1).contiguous(memory_format=torch.channels_last)
            features.append(pool(self.backbone(images)).unflatten(0, crops.shape[:2]))
        return self.layout.split(features)

    def loss(self, inputs: Sequence[Tensor], data_samples: None = None) -> dict[str, Tensor]:
        """Compute the weighted loss terms of ``SinkhornHead.loss``; their sum is Eq. 4."""
        return self.head.loss(self.neck(self.extract_feat(inputs)))


def pool(outputs: Sequence[Tensor] | Tensor) -> Tensor:
    """Global average pool of a backbone's last output.

    Args:
        outputs: A backbone's outputs; the last is (N, C, H, W) or already (N, C).

    Returns:
        Features (N, C).

    Raises:
        ValueError: An output of another rank, such as the tokens (N, L, C) of a transformer.
    """
    last = outputs if isinstance(outputs, Tensor) else outputs[-1]
    if last.dim() == 4:
        return last.mean(dim=(2, 3))
    if last.dim() != 2:
        raise ValueError(
            "the backbone's last output must be (N, C, H, W) or (N, C), "
            f"but got {tuple(last.shape)}; for a ViT set out_type='avg_featmap' or 'cls_token'."
        )
    return last
