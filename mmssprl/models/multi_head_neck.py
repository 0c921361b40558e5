"""A projection head per scale.

Legend: V views, P patches per view, B images per rank, C features, D embedding size.
"""

from collections.abc import Mapping, Sequence

from mmcv.cnn import build_norm_layer
from mmengine.model import BaseModule
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import UserValueError
from ..pyramid import ViewLayout
from ..registry import MODELS


@MODELS.register_module()
class MultiHeadNeck(BaseModule):
    """Independent projection heads for the image scale and each patch scale.

    Args:
        layout: The views, which determine the scales.
        in_channels: C, size of the backbone's pooled features.
        hid_channels: Hidden size of Linear, BatchNorm, ReLU, Linear; 0 for a linear head.
            Paper: 2048.
        out_channels: D, size of the embeddings. Paper: 128.
        norm_cfg: Normalisation between the two linear layers; BatchNorm by default.
        init_cfg: Initialisation, see mmengine; by default torch's.
    """

    def __init__(
        self,
        layout: ViewLayout | Mapping,
        in_channels: int = 2048,
        hid_channels: int = 2048,
        out_channels: int = 128,
        norm_cfg: Mapping | None = None,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(init_cfg=init_cfg)
        num_scales = ViewLayout.build(layout).num_scales
        self.in_channels = in_channels
        norm_cfg = dict(norm_cfg or {"type": "BN1d"})
        self.heads = nn.ModuleList(
            _projection_head(in_channels, hid_channels, out_channels, norm_cfg)
            for _ in range(num_scales)
        )

    def forward(self, features: Sequence[Tensor]) -> list[Tensor]:
        """Embed the pooled features of each scale.

        Args:
            features: One tensor (V, P, B, C) per scale.

        Returns:
            One tensor (V, P, B, D) per scale, unit norm, float32 even under autocast.

        Raises:
            ValueError: The features do not have ``in_channels``, or the number of scales differs.
        """
        if len(features) != len(self.heads):
            raise UserValueError(
                f"MultiHeadNeck: the neck has {len(self.heads)} scales, but the model gives "
                f"features of {len(features)}; leave neck.layout out, the model sets it."
            )
        embeddings = []
        for head, each in zip(self.heads, features, strict=True):
            found = each.shape[-1]
            if found != self.in_channels:
                raise UserValueError(
                    f"MultiHeadNeck: in_channels={self.in_channels}, but the backbone gives "
                    f"{found} features; set neck.in_channels={found}."
                )
            # BatchNorm sees all views and patches at once: (V P B, C).
            projected = head(each.flatten(0, 2)).float()
            embeddings.append(F.normalize(projected, dim=-1).unflatten(0, each.shape[:3]))
        return embeddings


def _projection_head(
    in_channels: int, hid_channels: int, out_channels: int, norm_cfg: dict
) -> nn.Module:
    if hid_channels == 0:
        return nn.Linear(in_channels, out_channels)
    return nn.Sequential(
        nn.Linear(in_channels, hid_channels),
        build_norm_layer(norm_cfg, hid_channels)[1],
        nn.ReLU(inplace=True),
        nn.Linear(hid_channels, out_channels),
    )
