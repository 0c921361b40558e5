"""DetCo: contrast whole images and the patches of jigsaws, at every stage of the backbone.

Legend: B images per rank, N images of all ranks, L levels (stages of the backbone), C_i features of
level i, P patches of a jigsaw, D embedding size, K negatives, px side of a jigsaw.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from mmengine import dist
from mmengine.model import BaseModule
from torch import Tensor, nn

from ...errors import UserValueError
from ...functional import info_nce
from ...functional.pooling import pool
from ...pyramid import ViewLayout
from ...registry import MODELS
from ..negative_queue import NegativeQueue
from ..protocol import LossTerm, Region
from ..ssprl import crop_outputs
from .moco import MoCo
from .two_views import unit


@MODELS.register_module()
class DetCoNeck(BaseModule):
    """A projection per level for whole images (G_i), and one for the patches of a jigsaw (P_i).

    Each is Linear, ReLU, Linear, as MoCo v2's.

    Args:
        in_channels: C_i of the last level; each one before it has half as many.
        hid_channels: Between the two layers. Published code of others: the input's width, which
            makes 450 M weights for patches. ASSUMPTION: 2,048 in all.
        out_channels: D. Published: 128.
        num_levels: L.
        num_patches: P, whose features enter P_i side by side.
    """

    def __init__(
        self,
        in_channels: int,
        hid_channels: int,
        out_channels: int,
        num_levels: int = 4,
        num_patches: int = 9,
    ) -> None:
        super().__init__()
        widths = [in_channels // 2**i for i in reversed(range(num_levels))]

        def head(width: int) -> nn.Module:
            return nn.Sequential(
                nn.Linear(width, hid_channels), nn.ReLU(), nn.Linear(hid_channels, out_channels)
            )

        self.of_images = nn.ModuleList(head(c) for c in widths)
        self.of_patches = nn.ModuleList(head(num_patches * c) for c in widths)

    def forward(self, images: Sequence[Tensor], patches: Sequence[Tensor]) -> list[Tensor]:
        """Embed the features of each level, (B, C_i) of images and (B, P, C_i) of patches.

        Returns unit vectors (L, B, D) of the images, then those of the patches.
        """
        whole = [unit(h(x)) for h, x in zip(self.of_images, images, strict=True)]
        parts = [unit(h(x.flatten(1))) for h, x in zip(self.of_patches, patches, strict=True)]
        return [torch.stack(whole), torch.stack(parts)]


@MODELS.register_module()
class DetCo(MoCo):
    """Unsupervised contrastive learning for object detection (ICCV 2021, arXiv:2102.04803).

    With features f_i of level i, whole images x_0, x_1 and jigsaws of patches of each:
    qg_i = norm(G_i(pool f_i(x_0))), ql_i = norm(P_i(concat_p pool f_i(patch_p of jigsaw 0))); keys
    kg_i, kl_i likewise by the momentum encoder on x_1 and jigsaw 1.
    L = sum_i w_i [nce(qg_i, kg_i, Qg_i) + nce(ql_i, kl_i, Ql_i) + nce(ql_i, kg_i, Qg_i)].

    A jigsaw is a crop of its own, augmented as one, divided into a grid of cells; of each cell a
    random square is cut, and the squares are shuffled. The layout's two small views are these
    crops. Without small views the image views serve as both, as in the port at
    shuuchen/DetCo.pytorch, by which the paper's row was most likely made (config ``detco-port``).

    The authors' code for pre-training was never released. ASSUMPTION: ``DetCoNeck``; patches are
    pooled before they are joined, in shuffled order; no RandAugment.

    Args:
        layout, backbone, neck: As in ``MoCo``; the neck has the fields of ``DetCoNeck``.
        level_weights: w_i of the last L stages. The values come from the port.
        grid: Cells of a jigsaw a side. Published: 3.
        patch_px: Side of the squares, at most a cell's. Published: 64 of 85 px.
        kwargs: Arguments of ``MoCo``, but ``symmetric``.

    Raises:
        ValueError: Values outside these ranges, other views, or as ``MoCo``.
    """

    default_neck: ClassVar[Mapping] = {"type": "DetCoNeck"}
    num_small: ClassVar[Sequence[int]] = (0, 2)
    image_queues: Any  # nn.ModuleList over levels; so is the next
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
        num_levels, num_stages = len(level_weights), backbone.get("num_stages", 4)
        if not 1 <= num_levels <= num_stages:
            raise UserValueError(
                f"DetCo: level_weights must be 1 to {num_stages} numbers, one of each of the "
                f"backbone's last stages, but got {tuple(level_weights)}."
            )
        levels = tuple(range(num_stages - num_levels, num_stages))
        neck = {"num_levels": num_levels, "num_patches": grid**2, **neck}
        super().__init__(layout, {**backbone, "out_indices": levels}, neck, **kwargs)
        self._require("symmetric", self.num_directions == 2, self.num_directions == 1, "False")
        self.level_weights, self.grid, self.patch_px = tuple(level_weights), grid, patch_px
        px = self.layout.small_px if self.layout.num_small else self.layout.image_px
        self._require("patch_px", patch_px, 1 <= patch_px <= px // grid, f"1 to {px // grid}")

    def _add_queues(self, length: int, in_channels: int) -> None:
        levels = self.neck.of_images
        self.image_queues, self.patch_queues = (
            nn.ModuleList(NegativeQueue(length, in_channels) for _ in levels) for _ in range(2)
        )

    def _sides(
        self, inputs: Sequence[Tensor], data_samples: Any
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """Give an image view (1, B, 3, px, px) and a jigsaw (1, B, P, 3, patch_px, patch_px)."""
        step, crops = self.key_encoder.num_updates, inputs[-1][-2:]
        queries, keys = (
            [inputs[0][side, None], self._cut(crops[side], step, side)[None]] for side in (0, 1)
        )
        return queries, keys

    def shown(
        self, inputs: Sequence[Tensor], data_samples: Any
    ) -> tuple[Sequence[Tensor], Sequence[Region]]:
        """Put the squares of each jigsaw side by side, in the order in which they are seen."""
        if len(inputs) == 1:  # whose views have one size, which the squares have not
            return inputs, ()
        jigsaws = [side[1][0] for side in self._sides(inputs, data_samples)]  # (B, P, ...) each
        rows = torch.stack(jigsaws).unflatten(2, (self.grid, self.grid))
        # (2, B, grid, grid, 3, px, px) -> (2, B, 3, grid, px, grid, px)
        tiles = rows.permute(0, 1, 4, 2, 5, 3, 6)
        return [inputs[0], tiles.flatten(5, 6).flatten(3, 4)], ()

    def _cut(self, crops: Tensor, step: int, side: int) -> Tensor:
        """Cut the squares of jigsaws (B, 3, px, px), shuffled: (B, P, 3, patch_px, patch_px).

        The draws follow from the number of the step and are those of all ranks' images, so that
        they are the same in one process.
        """
        num_images, cell = len(crops), crops.shape[-1] // self.grid
        generator = torch.Generator().manual_seed(2 * step + side)
        shape = (num_images * dist.get_world_size(), self.grid**2)
        order = torch.rand(shape, generator=generator).argsort(dim=1)
        inside = torch.randint(cell - self.patch_px + 1, (2, *shape), generator=generator)
        corner = cell * torch.stack([order // self.grid, order % self.grid]) + inside  # (2, N, P)
        first = dist.get_rank() * num_images
        rows, columns = (
            corner[:, first : first + num_images, :, None] + torch.arange(self.patch_px)
        ).to(crops.device, non_blocking=True)  # each (B, P, patch_px)
        image = torch.arange(num_images, device=crops.device)[:, None, None, None]
        # (B, px, px, 3) -> (B, P, patch_px, patch_px, 3) -> (B, P, 3, patch_px, patch_px)
        cut = crops.movedim(1, -1)[image, rows[..., None], columns[:, :, None]]
        return cut.movedim(-1, 2)

    @staticmethod
    def _features(backbone: nn.Module, views: Tensor, *rest: Tensor) -> Any:
        """Give the pooled features (B, C_i) of images and (B, P, C_i) of patches, by level."""
        (jigsaws,) = rest
        # Rows of one image lie side by side: BatchNorm's groups divide between images.
        whole = crop_outputs(backbone, views[0][:, None])
        parts = crop_outputs(backbone, jigsaws[0])
        return [
            [pool(x) for x in whole],
            [pool(x).unflatten(0, jigsaws.shape[1:3]) for x in parts],
        ]

    def _embed(self, neck: nn.Module, features: Any, *rest: Tensor) -> Sequence[Tensor]:
        """Give the unit vectors of images and of patches, (L, B, D) each."""
        return neck(*features)

    def _contrast(self, queries: Sequence[Tensor], keys: Sequence[Tensor]) -> dict[str, Tensor]:
        (whole, parts), (key, part_key) = queries, keys
        losses = {}
        for i, weight in enumerate(self.level_weights):
            rows, part_rows = self.image_queues[i].keys.clone(), self.patch_queues[i].keys.clone()
            # g is the whole image and l its patches: query, then key.
            for kind, query, positive, negatives in (
                ("gg", whole, key, rows),
                ("ll", parts, part_key, part_rows),
                ("lg", parts, key, rows),
            ):
                loss = info_nce(query[i], positive[i], negatives, temperature=self.temperature)
                losses[f"loss_{kind}_{i}"] = weight * loss
        # Of the deepest level, which the loop has come to.
        self._observe(whole[-1], key[-1], rows)
        return losses

    def _push(self, keys: Sequence[Tensor]) -> None:
        queues = *self.image_queues, *self.patch_queues
        for queue, key in zip(queues, torch.cat([*keys]), strict=True):
            queue.push(key)

    def _any_queue(self) -> NegativeQueue:
        return self.image_queues[0]

    def loss_terms(self) -> dict[str, LossTerm]:
        """Describe the terms of each level: images, patches, and patches against images."""
        (term,) = super().loss_terms().values()
        return {
            f"loss_{kind}_{i}": term._replace(symbol=f"L_{{{kind}}}", scale=i, weight=weight)
            for kind in ("gg", "ll", "lg")
            for i, weight in enumerate(self.level_weights)
            if weight > 0
        }
