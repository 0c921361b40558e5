"""InsLoc: find an image again that is pasted onto two others, on each level of a feature pyramid.

Legend: B images per rank, L levels, C features of the last stage, F of the pyramid, D embedding
size, K negatives, px side of a canvas.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from mmengine.model import BaseModule
from torch import Tensor, nn
from torchvision.ops import FeaturePyramidNetwork

from ...errors import UserValueError
from ...functional import info_nce
from ...functional.boxes import pool_boxes
from ...pyramid import ViewLayout
from ...registry import MODELS
from ..negative_queue import NegativeQueue
from ..protocol import LossTerm, Region
from ..pyramid_model import crop_outputs
from .moco import MoCo
from .two_views import unit

_CELLS = 7
_FIRST_LEVEL = 2  # P2 is of the first stage, Res2


@MODELS.register_module()
class InsLoc(MoCo):
    """Instance Localization (CVPR 2021, arXiv:2102.08318), in its form with a feature pyramid.

    Canvas v shows a crop of the image at a box b_v before another image. For each level l
    q_l = norm(R(RoI(P_l(canvas_0), b_0))), k_l = norm(R'(RoI(P'_l(canvas_1), b_1))) without
    gradient, and L = sum_l nce(q_l, k_l, Q_l; T); then k_l enters Q_l. On the last level the query
    has the anchor that ``PastePreprocessor`` has drawn near b_0, and the key never has.

    P is an FPN over all stages of the backbone, R one head for all levels; both are dropped with
    the key network when the training ends. BatchNorm sees all levels of its images at once.

    Differs from the released code: as ``MoCo``, ``PasteCrop`` and ``PastePreprocessor``.

    Args:
        layout: As in ``MoCo``; an image view is a canvas, ``image_area`` the share of the image
            that a crop shows. Published: 256 px, 0.2 to 1.
        backbone: mmpretrain's ``ResNet``; all of its stages are used, whatever its
            ``out_indices``.
        neck: P and R: fields of ``InsLocNeck``.
        args: Further arguments of ``MoCo``; ``queue_length`` is that of each level's queue.
        kwargs: The same.

    Raises:
        ValueError: As ``MoCo``.
    """

    default_neck: ClassVar[Mapping] = {"type": "InsLocNeck"}
    preprocessor_type: ClassVar[str] = "PastePreprocessor"
    transform_type: ClassVar[str] = "PasteCrop"
    queues: Any  # nn.ModuleList

    def __init__(
        self,
        layout: ViewLayout | Mapping,
        backbone: Mapping,
        neck: Mapping,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        num_levels = backbone.get("num_stages", 4)
        backbone = {**backbone, "out_indices": tuple(range(num_levels))}
        super().__init__(layout, backbone, {**neck, "num_levels": num_levels}, *args, **kwargs)

    def _add_queues(self, length: int, in_channels: int) -> None:
        levels = self.backbone.out_indices
        self.queues = nn.ModuleList(NegativeQueue(length, in_channels) for _ in levels)

    def _sides(
        self, inputs: Sequence[Tensor], data_samples: Any
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """Return canvases, and for each level the box to cut out (B, L, 4)."""
        # A box and its anchor (2, B, 2, 4), of both canvases.
        box, anchor = self._boxes_in(data_samples).unbind(2)
        of_queries, of_keys = box[:, :, None].repeat(1, 1, len(self.queues), 1)
        of_queries = torch.cat([of_queries[:, :-1], anchor[0, :, None]], dim=1)
        query_views, key_views = inputs[0]
        return [query_views, of_queries], [key_views, of_keys]

    def shown(
        self, inputs: Sequence[Tensor], data_samples: Any
    ) -> tuple[Sequence[Tensor], Sequence[Region]]:
        """Mark the crops, and the anchor of the query on the last level."""
        boxes = self._boxes_in(data_samples)
        crops = [Region(view, "crop", boxes[view, :, :1]) for view in (0, 1)]
        return inputs, [*crops, Region(0, "anchor", boxes[0, :, 1:])]

    @staticmethod
    def _features(backbone: nn.Module, views: Tensor, *rest: Tensor) -> Any:
        """(B, 3, px, px) -> the map (B, C_l, h, w) of each stage."""
        return list(crop_outputs(backbone, views[None]))

    def _embed(self, neck: nn.Module, features: Any, *boxes: Tensor) -> Sequence[Tensor]:
        """Cut boxes (B, L, 4) out of the levels: unit vectors (B, L, D)."""
        z = neck(features, boxes[0], self.layout.image_px)
        return [unit(z.flatten(0, 1)).unflatten(0, z.shape[:2])]

    def _contrast(self, queries: Sequence[Tensor], keys: Sequence[Tensor]) -> dict[str, Tensor]:
        losses = {}
        levels = (side[0].unbind(1) for side in (queries, keys))  # (B, L, D) -> L of (B, D)
        for name, queue, query, key in zip(self.loss_terms(), self.queues, *levels, strict=True):
            negatives = queue.keys.clone()
            losses[name] = info_nce(query, key, negatives, temperature=self.temperature)
        # Of the last level, whose gradient reaches every stage.
        self._observe(query, key, negatives)
        return losses

    def _push(self, keys: Sequence[Tensor]) -> None:
        for queue, key in zip(self.queues, keys[0].unbind(1), strict=True):
            queue.push(key)

    def check_training(
        self, num_images: int, batch_size: int, last_batch_size: int | None = None
    ) -> None:
        """Check as ``MoCo``, and that a batch has at least three images."""
        smallest = last_batch_size or batch_size
        if smallest < 3:
            raise UserValueError(
                "InsLoc: each step needs three images per process or more, one to paste and two "
                f"behind it, but got {smallest}; raise train_dataloader.batch_size or set "
                "drop_last=True there."
            )
        super().check_training(num_images, batch_size, last_batch_size)

    def _any_queue(self) -> NegativeQueue:
        return self.queues[0]

    def loss_terms(self) -> dict[str, LossTerm]:
        """Describe the term of each level, P2 first."""
        (term,) = super().loss_terms().values()
        levels = range(_FIRST_LEVEL, _FIRST_LEVEL + len(self.queues))
        return {f"loss_nce_p{i}": term._replace(symbol=f"L_{{P{i}}}") for i in levels}


@MODELS.register_module()
class InsLocNeck(BaseModule):
    """A feature pyramid, and one head that embeds a box of each of its levels.

    Laterals and outputs are convolutions with BatchNorm and without ReLU, upsampling is to the
    nearest. The head is convolutions of 3 x 3 with BatchNorm and ReLU, then linear layers with
    ReLU, and a last one. Rows are ordered by image: no group of BatchNorm divides an image.

    Args:
        in_channels: C, of the last stage; each stage before it has half as many.
        num_levels: L, the number of stages: the model's.
        fpn_channels: F. Published: 256.
        num_convs: Convolutions of the head. Published: 4.
        num_fcs: Linear layers before the last one. Published: 2.
        hid_channels: Their size. Published: 1024.
        out_channels: D. Published: 128.
        sampling_ratio: See ``pool_boxes``. Published: -1.
    """

    def __init__(
        self,
        in_channels: int,
        num_levels: int,
        fpn_channels: int = 256,
        num_convs: int = 4,
        num_fcs: int = 2,
        hid_channels: int = 1024,
        out_channels: int = 128,
        sampling_ratio: int = -1,
    ) -> None:
        super().__init__()
        self.sampling_ratio = sampling_ratio
        of_stages = [in_channels // 2**i for i in reversed(range(num_levels))]
        self.fpn = FeaturePyramidNetwork(of_stages, fpn_channels, norm_layer=nn.BatchNorm2d)
        layers: list[nn.Module] = []
        for _ in range(num_convs):
            convolution = nn.Conv2d(fpn_channels, fpn_channels, 3, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(fpn_channels), nn.ReLU(inplace=True)]
        layers.append(nn.Flatten())
        size = fpn_channels * _CELLS**2
        for _ in range(num_fcs):
            layers += [nn.Linear(size, hid_channels), nn.ReLU(inplace=True)]
            size = hid_channels
        last = nn.Linear(size, out_channels)
        self.head = nn.Sequential(*layers, last)
        for module in self.fpn.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.xavier_uniform_(module.weight)
        for module in self.head:
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        nn.init.normal_(last.weight, std=0.01)

    def forward(self, maps: Sequence[Tensor], boxes: Tensor, px: int) -> Tensor:
        """Embed box l of each image on level l.

        Args:
            maps: One per stage, (B, C_l, h, w).
            boxes: (B, L, 4) in pixels of the canvas.
            px: Its side.

        Returns:
            (B, L, D), of no particular norm.
        """
        levels = self.fpn({str(i): each for i, each in enumerate(maps)}).values()
        cut = [
            pool_boxes(level, box, px, cells=_CELLS, sampling_ratio=self.sampling_ratio)
            for level, box in zip(levels, boxes.split(1, dim=1), strict=True)
        ]
        return self.head(torch.stack(cut, dim=1).flatten(0, 1)).unflatten(0, boxes.shape[:2])
