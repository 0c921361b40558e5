"""One projection head per scale.

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
        layout: The views; one head per scale.
        in_channels: C, size of the backbone's pooled features; a sequence has one per scale.
        hid_channels: Hidden size of Linear, BatchNorm, ReLU, Linear; 0 makes a linear head.
            Paper: 2048.
        out_channels: D, size of the embeddings. Paper: 128.
        norm_cfg: Normalisation between the two linear layers.
        init_cfg: Initialisation, see mmengine; by default that of the layers.
    """

    def __init__(
        self,
        layout: ViewLayout | Mapping,
        in_channels: int | Sequence[int] = 2048,
        hid_channels: int = 2048,
        out_channels: int = 128,
        norm_cfg: Mapping | None = None,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(init_cfg=init_cfg)
        num_scales = ViewLayout.build(layout).num_scales
        each = [in_channels] * num_scales if isinstance(in_channels, int) else list(in_channels)
        if len(each) != num_scales:
            raise UserValueError(
                f"MultiHeadNeck: in_channels must be one number, or one for each of {num_scales} "
                f"scales, but got {in_channels}."
            )
        self.in_channels = each
        norm_cfg = dict(norm_cfg or {"type": "BN1d"})
        self.heads = nn.ModuleList(
            _projection_head(channels, hid_channels, out_channels, norm_cfg) for channels in each
        )

    def forward(self, features: Sequence[Tensor]) -> list[Tensor]:
        """Embed the pooled features of each scale.

        Args:
            features: One tensor (V, P, B, C) per scale.

        Returns:
            One tensor (V, P, B, D) per scale, unit norm, float32 whatever the autocast state.

        Raises:
            ValueError: Features of another size than ``in_channels``, or of other scales.
        """
        if len(features) != len(self.heads):
            raise UserValueError(
                f"MultiHeadNeck: the neck has {len(self.heads)} scales, but the model gives "
                f"features of {len(features)}; leave neck.layout out, it is that of the model."
            )
        return [self.embed(scale, each) for scale, each in enumerate(features)]

    def embed(self, scale: int, features: Tensor) -> Tensor:
        """Embed the features (V, P, B, C) of one scale; as ``forward``."""
        expected, found = self.in_channels[scale], features.shape[-1]
        if found != expected:
            of_scale = f" at scale {scale}" if len(set(self.in_channels)) > 1 else ""
            raise UserValueError(
                f"MultiHeadNeck: in_channels={expected}{of_scale}, but the backbone gives {found} "
                f"features; set neck.in_channels={found}{of_scale}."
            )
        # BatchNorm sees all views and patches at once: (V P B, C).
        projected = self.heads[scale](features.flatten(0, 2)).float()
        return F.normalize(projected, dim=-1).unflatten(0, features.shape[:3])


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
