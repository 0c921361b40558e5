"""InsLoc: recognise a crop that is pasted onto two other images, at each level of an FPN.

Legend: B images per rank, L levels, C features of the last stage, F of the pyramid, D embedding
size, K negatives, px side of a canvas.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from mmengine.config import Config
from mmengine.model import BaseModule, kaiming_init, xavier_init
from torch import Tensor, nn
from torchvision.ops import Conv2dNormActivation, FeaturePyramidNetwork

from ...functional.boxes import pool_boxes
from ...registry import MODELS
from ..protocol import LossTerm, Region
from ..pyramid_model import crop_outputs
from ..queues import NegativeQueue
from ..training_size import TrainingSize
from .moco import MoCo
from .two_views import unit

_CELLS = 7
_FIRST_LEVEL = 2  # P2 belongs to the first stage, Res2


@MODELS.register_module()
class InsLoc(MoCo):
    """Instance Localization (CVPR 2021, arXiv:2102.08318), the form with a feature pyramid.

    Canvas v shows a crop of the image at a box b_v, with another image behind it. For each level l
    q_l = norm(R(RoI(P_l(canvas_0), b_0))), k_l = norm(R'(RoI(P'_l(canvas_1), b_1))) without
    gradient, and L = sum_l nce(q_l, k_l, Q_l; T); then k_l enters Q_l. On the last level the query
    uses the anchor near b_0 that ``PastePreprocessor`` draws. The key always uses its box.

    P is an FPN over all stages of the backbone, and R is one head for all levels. Both are dropped
    after the training, like the key network. BatchNorm sees all levels of its images at once.

    Differs from the released code in the same points as ``MoCo``, ``PasteCrop`` and
    ``PastePreprocessor``.

    Args:
        layout: As in ``MoCo``. An image view is a canvas, and ``image_area`` is the share of the
            image that a crop shows. Published: 256 px, 0.2 to 1.
        backbone: mmpretrain's ``ResNet``. All its stages are used; ``out_indices`` is ignored.
        neck: P and R: fields of ``InsLocNeck``.
        queue_length: As in ``MoCo``, for each level's queue. The other arguments are the same, too.

    Raises:
        ValueError: As in ``MoCo``.
    """

    default_neck: ClassVar[Mapping] = {"type": "InsLocNeck"}
    needs = "stages"
    preprocessor_type: ClassVar[str] = "PastePreprocessor"
    transform_type: ClassVar[str] = "PasteCrop"
    least_images = "three images per process or more, one to paste and two behind it", 3
    queues: Any  # nn.ModuleList

    @classmethod
    def scaled(cls, cfg: Config, size: TrainingSize) -> dict[str, Any]:
        """Return the numbers of ``MoCo``; the head's layers keep their width."""
        values = super().scaled(cfg, size)
        del values["model.neck.hid_channels"]
        return values

    def _add_queues(self, length: int, in_channels: int) -> None:
        levels = self.backbone.out_indices
        self.queues = nn.ModuleList(NegativeQueue(length, in_channels) for _ in levels)

    def _sides(
        self, inputs: Sequence[Tensor], data_samples: Any
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """Return canvases, and the box to cut out on each level (B, L, 4)."""
        # (2, B, 2, 4): box and anchor on both canvases.
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

    def _features(self, backbone: nn.Module, views: Tensor, *rest: Tensor) -> Any:
        """(B, 3, px, px) -> the map (B, C_l, h, w) of each stage."""
        return list(crop_outputs(backbone, views[None]))

    def _embed(self, neck: nn.Module, features: Any, *boxes: Tensor) -> Sequence[Tensor]:
        """Cut boxes (B, L, 4) out of the levels: unit vectors (B, L, D)."""
        z = neck(features, boxes[0], self.layout.image_px)
        return [unit(z.flatten(0, 1)).unflatten(0, z.shape[:2])]

    def _contrast(self, queries: Sequence[Tensor], keys: Sequence[Tensor]) -> dict[str, Tensor]:
        query, key = (side[0].unbind(1) for side in (queries, keys))  # (B, L, D) -> L of (B, D)
        # The gradient of the last level reaches every stage.
        self._observe(query[-1], key[-1], self.queues[-1])
        terms = map(self._nce, query, key, self.queues)
        return dict(zip(self.loss_terms(), terms, strict=True))

    def _push(self, keys: Sequence[Tensor]) -> None:
        for queue, key in zip(self.queues, keys[0].unbind(1), strict=True):
            queue.push(key)

    def loss_terms(self) -> dict[str, LossTerm]:
        """Describe the term of each level, from P2 up."""
        (term,) = super().loss_terms().values()
        levels = range(_FIRST_LEVEL, _FIRST_LEVEL + len(self.queues))
        return {f"loss_nce_p{i}": term._replace(symbol=f"L_{{P{i}}}") for i in levels}


@MODELS.register_module()
class InsLocNeck(BaseModule):
    """A feature pyramid, and one head that embeds a box of each level.

    Lateral and output layers have BatchNorm and no ReLU, convolutions of the head have both. Rows
    are ordered by image, so no group of BatchNorm splits an image.

    Args:
        in_channels: C of the last stage. Each stage has twice the channels of the one before.
        num_levels: L, the number of stages; set by the model.
        fpn_channels: F. Published: 256.
        num_convs: Convolutions of the head. Published: 4.
        num_fcs: Linear layers before the last one. Published: 2.
        hid_channels: Size of these layers. Published: 1024.
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
            layers += Conv2dNormActivation(fpn_channels, fpn_channels)
        layers.append(nn.Flatten())
        size = fpn_channels * _CELLS**2
        for _ in range(num_fcs):
            layers += [nn.Linear(size, hid_channels), nn.ReLU(inplace=True)]
            size = hid_channels
        last = nn.Linear(size, out_channels)
        self.head = nn.Sequential(*layers, last)
        for module in self.fpn.modules():
            if isinstance(module, nn.Conv2d):
                xavier_init(module, distribution="uniform")
        for module in self.head:
            if isinstance(module, nn.Conv2d):
                kaiming_init(module)
            elif isinstance(module, nn.Linear):
                xavier_init(module, distribution="uniform")
        nn.init.normal_(last.weight, std=0.01)

    def forward(self, maps: Sequence[Tensor], boxes: Tensor, px: int) -> Tensor:
        """Embed box l of each image on level l: (B, L, D), not normalised.

        ``maps`` are (B, C_l, h, w) of each stage, ``boxes`` (B, L, 4) in pixels of the canvas.
        """
        levels = self.fpn({str(i): each for i, each in enumerate(maps)}).values()
        cut = [
            pool_boxes(level, box, px, cells=_CELLS, sampling_ratio=self.sampling_ratio)
            for level, box in zip(levels, boxes.split(1, dim=1), strict=True)
        ]
        return self.head(torch.stack(cut, dim=1).flatten(0, 1)).unflatten(0, boxes.shape[:2])
