"""MaskCo, our reading: recognise a region of an image that is masked in one of its views.

Legend: B images per rank, R boxes per image, J of them are others, C features, D embedding size,
K negatives, px side of a view.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from mmengine.config import Config
from mmengine.model import BaseModule
from torch import Tensor, nn
from torchvision.ops import Conv2dNormActivation

from ...functional.boxes import boxes_in_crop, pixels_in_boxes, pool_boxes
from ...pyramid import ViewLayout
from ...registry import MODELS
from ..grouped_batch_norm import group_batch_norms
from ..momentum_encoder import MomentumEncoder
from ..protocol import Region
from ..training_size import TrainingSize
from .moco import MoCo
from .two_views import TwoViewModel, unit


@MODELS.register_module()
class MaskCo(MoCo):
    """Self-supervised visual representation learning by contrastive mask prediction, our reading.

    No code of the paper (ICCV 2021, arXiv:2108.07954) is known. The following is based only on its
    abstract and the caption of its overview figure. A region b of the query's view is masked. A
    head M predicts the features under the mask from those around it. The query must find the same
    region of the key's view among keys of other images and J other regions e_j of the same image:

        q = norm(h(mean RoI(M(f(mask(x_0, b_0))), b_0))),   k = norm(h'(mean RoI(f'(x_1), b_1))),
        L = mean_b nce(q, k, Q and {e_1, ..., e_J}; T);   then k enters Q.

    ASSUMPTIONS: everything else. ``RegionPairCrop`` draws boxes and views. A mask is 0 after
    normalisation, the mean colour. M is only on the query's side. Views, h, queue, momentum and
    temperature are as in MoCo v2.

    Args:
        layout, backbone, neck: As in ``MoCo``; the backbone must return a map.
        args, kwargs: Further arguments of ``MoCo``.
        mask_channels: Hidden channels of M; 0 removes M.
        mph_on_key: Whether the key's side has M, too, as a moving average.

    Raises:
        ValueError: Values that contradict each other, or as in ``MoCo``.
    """

    needs = "map"
    transform_type: ClassVar[str] = "RegionPairCrop"
    _features = TwoViewModel._last_map

    def __init__(
        self,
        layout: ViewLayout | Mapping,
        backbone: Mapping,
        neck: Mapping,
        *args: Any,
        mask_channels: int = 512,
        mph_on_key: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(layout, backbone, neck, *args, **kwargs)
        fits = bool(mask_channels) or not mph_on_key
        self._require("mph_on_key", mph_on_key, fits, "False without M (mask_channels=0)")
        self.mask_head: nn.Module = nn.Identity()
        if mask_channels:
            self.mask_head = MaskPredictionHead(neck["in_channels"], mask_channels)
            group_batch_norms(self.mask_head, self.bn_groups)
        if mph_on_key:
            self.key_encoder = MomentumEncoder(self.backbone, self.neck, self.mask_head)

    @classmethod
    def scaled(cls, cfg: Config, size: TrainingSize) -> dict[str, Any]:
        """Return the numbers of ``MoCo``, and regions with the same share of a view."""
        factor = size.layout["image_px"] / cfg.model.layout.image_px
        own_px = cfg.train_dataloader.dataset.pipeline[0].box_px
        box_px = tuple(round(px * factor) for px in own_px)
        return {
            **super().scaled(cfg, size),
            "train_dataloader.dataset.pipeline.0.box_px": box_px,
        }

    def _sides(
        self, inputs: Sequence[Tensor], data_samples: Any
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """Return the masked view with the box of its mask, and the other view with all boxes."""
        px = self.layout.image_px
        of_image = self._boxes_in(data_samples)
        (places,) = data_samples["places"]
        boxes = boxes_in_crop(of_image[None], places[:, :, None], px)  # (2, B, R, 4)
        mask = pixels_in_boxes(boxes[0, :, 0], px)[:, None]
        query_views, key_views = inputs[0]
        return [query_views.masked_fill(mask, 0), boxes[0, :, :1]], [key_views, boxes[1]]

    def shown(
        self, inputs: Sequence[Tensor], data_samples: Any
    ) -> tuple[Sequence[Tensor], Sequence[Region]]:
        """Mask the query's view, and mark the region in both views and the other regions."""
        (queries, mask), (keys, boxes) = self._sides(inputs, data_samples)
        regions = [
            Region(0, "masked region", mask),
            Region(1, "region", boxes[:, :1]),
            Region(1, "others", boxes[:, 1:]),
        ]
        return [torch.stack([queries, keys])], regions

    def _embed(self, neck: nn.Module, features: Tensor, *boxes: Tensor) -> Sequence[Tensor]:
        """Cut boxes (B, R, 4) out of maps: unit vectors (B, R, D)."""
        copies = self.key_encoder.copies
        if neck is self.neck:
            features = self.mask_head(features)
        elif len(copies) > 2:
            features = copies[2](features)
        cut = pool_boxes(features, boxes[0], self.layout.image_px)
        (z,) = neck((cut.mean(dim=(2, 3)),))
        return [unit(z).unflatten(0, boxes[0].shape[:2])]

    def _contrast(self, queries: Sequence[Tensor], keys: Sequence[Tensor]) -> dict[str, Tensor]:
        query = queries[0][:, 0]  # (B, D)
        key = keys[0][:, 0]
        others = keys[0][:, 1:]  # (B, J, D)
        self._observe(query, key, self.queue)
        return {"loss_nce": self._nce(query, key, self.queue, extra=others)}

    def _push(self, keys: Sequence[Tensor]) -> None:
        self.queue.push(keys[0][:, 0])


class MaskPredictionHead(BaseModule):
    """M: predict unmasked features of a map (N, C, h, w) from masked ones, as a residual.

    A 1 x 1 convolution to ``hid_channels``, two 3 x 3 convolutions, and a 1 x 1 convolution back to
    C, with BatchNorm and ReLU between them. The whole head is an assumption.
    """

    def __init__(self, in_channels: int, hid_channels: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        size = in_channels
        for kernel in (1, 3, 3):
            layers += Conv2dNormActivation(size, hid_channels, kernel)
            size = hid_channels
        self.layers = nn.Sequential(*layers, nn.Conv2d(size, in_channels, 1))

    def forward(self, maps: Tensor) -> Tensor:
        """Add the prediction to the map."""
        return maps + self.layers(maps)
