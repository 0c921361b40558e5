"""DetCo: contrast whole images and the patches of jigsaws at every stage of the backbone.

Legend: B images per rank, L levels (stages of the backbone), C_i features of level i, P patches of
a jigsaw, D embedding size, px side of an image view.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, ClassVar

import torch
from mmengine import dist
from mmengine.config import Config
from mmengine.model import BaseModule
from torch import Tensor, nn

from ...functional import info_nce
from ...functional.jigsaws import cut_jigsaws, join_squares
from ...functional.pooling import pool
from ...pyramid import ViewLayout
from ...registry import MODELS
from ..protocol import LossTerm, Region
from ..pyramid_model import crop_outputs
from ..queues import NegativeQueue
from ..training_size import TrainingSize
from .moco import MoCo
from .two_views import unit


@MODELS.register_module()
class DetCo(MoCo):
    """Unsupervised contrastive learning for object detection (ICCV 2021, arXiv:2102.04803).

    With features f_i of level i, whole images x_0, x_1 and jigsaws of patches of each:
    qg_i = norm(G_i(pool f_i(x_0))), ql_i = norm(P_i(concat_p pool f_i(patch_p of jigsaw 0))); keys
    kg_i, kl_i likewise by the momentum encoder on x_1 and jigsaw 1.
    L = sum_i w_i [nce(qg_i, kg_i, Qg_i) + nce(ql_i, kl_i, Ql_i) + nce(ql_i, kg_i, Qg_i)].

    Each jigsaw comes from its own crop, one of the two small views, which is augmented as a whole
    (see ``cut_jigsaws``). Without small views it comes from the image view, as in the port at
    shuuchen/DetCo.pytorch. The row of the SS-PRL paper was most likely made with that port (config
    ``detco-port``). The authors never released their pre-training code.

    ASSUMPTIONS: ``DetCoNeck``; patches are pooled before they are joined, in shuffled order; no
    RandAugment.

    Args:
        layout, backbone, neck: As in ``MoCo``; the neck has the fields of ``DetCoNeck``.
        level_weights: w_i of each stage. The defaults come from the port.
        grid: Cells per side of a jigsaw. Published: 3.
        patch_px: Side of the squares, at most one cell. Published: 64 of 85 px.
        kwargs: Arguments of ``MoCo``.

    Raises:
        ValueError: Values outside these ranges, a layout with other views, or as in ``MoCo``.
    """

    default_neck: ClassVar[Mapping] = {"type": "DetCoNeck"}
    num_small: ClassVar[Sequence[int]] = (0, 2)
    needs = "stages"
    image_queues: Any  # nn.ModuleList over levels, like patch_queues
    patch_queues: Any

    def __init__(
        self,
        layout: ViewLayout | Mapping,
        backbone: Mapping,
        neck: Mapping,
        level_weights: Sequence[float] = (0.1, 0.4, 0.7, 1.0),
        grid: int = 3,
        patch_px: int = 64,
        **kwargs: Any,
    ) -> None:
        super().__init__(layout, backbone, {**neck, "num_patches": grid**2}, **kwargs)
        self.level_weights = tuple(level_weights)
        self.cells = (grid, patch_px)
        num = len(self.image_queues)
        rule = f"{num} numbers, one for each stage"
        self._require("level_weights", self.level_weights, len(level_weights) == num, rule)
        px = self.layout.small_px if self.layout.num_small else self.layout.image_px
        self._require("patch_px", patch_px, 1 <= patch_px <= px // grid, f"1 to {px // grid}")

    @classmethod
    def scaled(cls, cfg: Config, size: TrainingSize) -> dict[str, Any]:
        """Return the numbers of ``MoCo``, and squares with the same share of a cell."""
        grid = cfg.model.grid
        cell_px = size.layout["small_px"] // grid
        own_cell_px = cfg.model.layout.small_px // grid
        patch_px = round(cell_px * cfg.model.patch_px / own_cell_px)
        return {**super().scaled(cfg, size), "model.patch_px": patch_px}

    def _add_queues(self, length: int, in_channels: int) -> None:
        levels = self.neck.of_images
        self.image_queues = nn.ModuleList(NegativeQueue(length, in_channels) for _ in levels)
        self.patch_queues = nn.ModuleList(NegativeQueue(length, in_channels) for _ in levels)

    def _sides(
        self, inputs: Sequence[Tensor], data_samples: Any
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """Return an image view (B, 3, px, px) and a jigsaw (B, P, 3, patch_px, patch_px)."""
        num = inputs[0].shape[1]
        of_ranks = {"skip": dist.get_rank() * num, "num_drawn": dist.get_world_size() * num}
        seed = 2 * self.key_encoder.num_updates
        query_crop, key_crop = inputs[-1][-2:]
        of_query = cut_jigsaws(query_crop, *self.cells, seed=seed, **of_ranks)
        of_key = cut_jigsaws(key_crop, *self.cells, seed=seed + 1, **of_ranks)
        return [inputs[0][0], of_query], [inputs[0][1], of_key]

    def shown(
        self, inputs: Sequence[Tensor], data_samples: Any
    ) -> tuple[Sequence[Tensor], Sequence[Region]]:
        """Join the squares of each jigsaw in the order in which the backbone sees them."""
        if len(inputs) == 1:  # its crops have another size than the joined squares
            return inputs, ()
        queries, keys = self._sides(inputs, data_samples)
        return [inputs[0], join_squares(torch.stack([queries[1], keys[1]]))], ()

    def _features(self, backbone: nn.Module, views: Tensor, *rest: Tensor) -> Any:
        """Return pooled features by level: (B, C_i) of images and (B, P, C_i) of patches."""
        (jigsaws,) = rest
        whole = [pool(x) for x in crop_outputs(backbone, views[None])]
        # Rows of one image are adjacent, so that BatchNorm's groups split between images.
        parts = [pool(x).unflatten(0, jigsaws.shape[:2]) for x in crop_outputs(backbone, jigsaws)]
        return [whole, parts]

    def _embed(self, neck: nn.Module, features: Any, *rest: Tensor) -> Sequence[Tensor]:
        """Return the unit vectors of images and of patches, (B, L, D) each."""
        return neck(*features)

    def _contrast(self, queries: Sequence[Tensor], keys: Sequence[Tensor]) -> dict[str, Tensor]:
        # (B, L, D) -> L of (B, D)
        whole, parts = (side.unbind(1) for side in queries)
        whole_keys, part_keys = (side.unbind(1) for side in keys)
        self._observe(whole[-1], whole_keys[-1], self.image_queues[-1])
        # One copy of each queue for all its terms, see `MoCo._nce`.
        rows = [queue.keys.clone() for queue in self.image_queues]
        part_rows = [queue.keys.clone() for queue in self.patch_queues]

        # Query, then key: g is the whole image, l its patches.
        pairs = {
            "gg": (whole, whole_keys, rows),
            "ll": (parts, part_keys, part_rows),
            "lg": (parts, whole_keys, rows),
        }
        losses = {}
        for kind, sides in pairs.items():
            for i, (query, key, negatives) in enumerate(zip(*sides, strict=True)):
                term = info_nce(query, key, negatives, temperature=self.temperature)
                losses[f"loss_{kind}_{i}"] = self.level_weights[i] * term
        return losses

    def _push(self, keys: Sequence[Tensor]) -> None:
        queues = *self.image_queues, *self.patch_queues
        for queue, key in zip(queues, torch.cat([*keys], 1).unbind(1), strict=True):
            queue.push(key)

    def loss_terms(self) -> dict[str, LossTerm]:
        """Describe the terms of each level: images, patches, and patches against images."""
        (term,) = super().loss_terms().values()
        levels = enumerate(self.level_weights)
        return {
            f"loss_{kind}_{i}": term._replace(symbol=f"L_{{{kind}}}", scale=i, weight=weight)
            for kind, (i, weight) in product(("gg", "ll", "lg"), levels)
            if weight > 0
        }


@MODELS.register_module()
class DetCoNeck(BaseModule):
    """Per level, one projection for images (G_i) and one for jigsaws (P_i), as in MoCo v2.

    Args:
        in_channels: C_i of the last level. Each level has twice the channels of the one before.
        num_levels: L; set by the model.
        num_patches: P, the number of patches; P_i reads their features side by side. Set by the
            model.
        hid_channels: Hidden size. ASSUMPTION: 2,048 at all levels. In the port: the input size.
        out_channels: D. Published: 128.
    """

    def __init__(
        self,
        in_channels: int,
        num_levels: int,
        num_patches: int,
        hid_channels: int,
        out_channels: int,
    ) -> None:
        super().__init__()
        widths = [in_channels // 2**i for i in reversed(range(num_levels))]
        joined_widths = [num_patches * width for width in widths]
        self.of_images = _projections(widths, hid_channels, out_channels)
        self.of_patches = _projections(joined_widths, hid_channels, out_channels)

    def forward(self, images: Sequence[Tensor], patches: Sequence[Tensor]) -> list[Tensor]:
        """Embed the features of each level, (B, C_i) of images and (B, P, C_i) of patches.

        Returns unit vectors (B, L, D) of the images, then of the patches.
        """
        joined = [each.flatten(1) for each in patches]
        return [_embed_levels(self.of_images, images), _embed_levels(self.of_patches, joined)]


def _projections(widths: Sequence[int], hid_channels: int, out_channels: int) -> nn.ModuleList:
    """Return a projection for each level, which has features of its own width."""
    return nn.ModuleList(
        nn.Sequential(
            nn.Linear(width, hid_channels), nn.ReLU(), nn.Linear(hid_channels, out_channels)
        )
        for width in widths
    )


def _embed_levels(heads: nn.ModuleList, features: Sequence[Tensor]) -> Tensor:
    """Embed features (B, C_i) of each level by its head: unit vectors (B, L, D)."""
    levels = zip(heads, features, strict=True)
    return torch.stack([unit(head(each)) for head, each in levels], dim=1)
