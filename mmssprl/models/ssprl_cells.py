"""SS-PRL whose patches are cells of the image views' maps: this package's own form.

Legend: N_g crops per image in resolution group g, B images per rank, n small views of an image that
have a scale s >= 1, n_s of them scale s, C features, h and w sides of a map, px side of a view.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..errors import UserValueError
from ..functional.boxes import boxes_in_crop, cut_to_crop, mean_in_boxes, pixels_in_boxes
from ..functional.pooling import pool
from ..pyramid import NUM_PYRAMIDS
from ..registry import MODELS
from .cell_head import CellHead
from .protocol import Region
from .ssprl import SSPRL, crop_outputs

_LEAST_INSIDE = 0.6
_SAMPLES = 7
"""Points per side at which a cell is read: as many as the last map of a 224 px view has pixels."""


@MODELS.register_module()
class SSPRLCells(SSPRL):
    """SS-PRL that encodes no patches: its pairs are small views and cells of the image views.

    This package's own form, and no part of the paper. Small views are independent crops, as in
    SwAV. The n_1 largest of an image are of scale 1, the next n_2 of scale 2, see
    ``ViewLayout.cells``. The cell of a small view is the same place of the image in an image view:
    a box of that view's feature map, pooled as by RoIAlign. Where at least 60 % of the box
    lie inside the view, both are a pair of Eq. 2; ``CellHead`` has the terms. Nothing more is
    encoded than by SwAV, and with ``alpha = beta = 0`` weights move exactly as SwAV's do.

    The projection heads normalise cells and small views apart: what tells all cells from all small
    views says nothing of a place. A cell without a pair counts for nothing but the statistics of
    that BatchNorm, with the features of the nearest place inside the view.

    Args:
        args: As ``SSPRL``. The layout must have ``cells``, the backbone give a feature map, and the
            head be a ``CellHead``.
        stage: Output of the backbone that cells are cut out of, and that small views are pooled
            from for the same scales. Another one than -1, the last, must be among the backbone's
            ``out_indices``; ``neck.in_channels`` then has one number per scale.
        cutout: Width of a frame around the cells of an image view as a share of their sides, whose
            pixels are set to 0, the mean colour: then cells tell less of their surroundings, but
            scale 0 does not see them either. 0 for none.
        kwargs: Further arguments of ``SSPRL``.

    Raises:
        ValueError: ``cutout < 0``, or as ``SSPRL``.
    """

    has_cells: ClassVar[bool] = True

    def __init__(self, *args: Any, stage: int = -1, cutout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if cutout < 0:
            raise UserValueError(f"SSPRLCells: cutout must be >= 0, but got {cutout}.")
        if not isinstance(self.head, CellHead):
            kind = type(self.head).__name__
            raise UserValueError(f"SSPRLCells: head.type must be CellHead, but got {kind}.")
        self.stage = stage
        self.cutout = cutout

    def loss(self, inputs: Sequence[Tensor], data_samples: Any = None) -> dict[str, Tensor]:
        """Compute the weighted loss terms of ``CellHead.loss``; their sum is Eq. 4.

        Args:
            inputs: One tensor (N_g, B, 3, px, px) per group of the layout.
            data_samples: ``places`` of the crops, one tensor (N_g, B, 4) per group.
        """
        order, cells, is_pair = self._find_cells(data_samples)
        inputs = self._cut_out(inputs, cells, is_pair)
        outputs = self._encode(crop_maps, inputs, stage=self.stage)
        (image_scale,) = self.layout.split([pooled for pooled, _ in outputs])
        of_cells = self._pool_cells(outputs[0][1], cells)
        # Two gradients of one map would be added in a layout that its backward pass is slow in.
        is_last = self.stage == -1
        means = [mean if is_last else maps.mean(dim=(3, 4)) for mean, maps in outputs]
        of_crops = torch.cat(means)  # (N, B, C)
        of_small = of_crops[NUM_PYRAMIDS:].gather(
            0, order[..., None].expand(-1, -1, of_crops.shape[2])
        )
        sizes = self.layout.cells
        embeddings = self.neck([image_scale, *(each[None] for each in of_small.split(sizes))])
        with torch.set_grad_enabled(self.head.cell_gradient and torch.is_grad_enabled()):
            parts = zip(of_cells.split(sizes, 1), is_pair.split(sizes, 1), strict=True)
            # (2, n_s, B, D), of zeros where there is no pair
            targets = [
                self.neck.embed(scale, each) * pairs[..., None]
                for scale, (each, pairs) in enumerate(parts, start=1)
            ]
        joined = map(torch.cat, zip(targets, embeddings[1:], strict=True))
        return self._loss_of([embeddings[0], *joined])

    def shown(
        self, inputs: Sequence[Tensor], data_samples: Any
    ) -> tuple[Sequence[Tensor], Sequence[Region]]:
        """Cut the frames out, and mark the cells of the first image that are pairs."""
        _, cells, is_pair = self._find_cells(data_samples)
        parts = [each[:, :, 0].split(self.layout.cells, 1) for each in (cells, is_pair)]
        regions = [
            Region(view, f"s = {scale}", boxes[view][pairs[view]][None])
            for scale, (boxes, pairs) in enumerate(zip(*parts, strict=True), start=1)
            for view in range(NUM_PYRAMIDS)
        ]
        return self._cut_out(inputs, cells, is_pair), regions

    def _find_cells(self, data_samples: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Look for the cells of small views, the largest of each image first.

        Returns:
            Which small views these are (n, B), their cells (2, n, B, 4) in pixels of the image
            views, and whether they are pairs (2, n, B).
        """
        if data_samples is None or "places" not in data_samples:
            raise UserValueError(
                "SSPRLCells needs the places of its crops, but got none; set with_places=True of "
                "PyramidCrop in train_dataloader.dataset.pipeline."
            )
        places = torch.cat(list(data_samples["places"]))
        image_views, small_views = places[:NUM_PYRAMIDS, None], places[NUM_PYRAMIDS:]
        area = (small_views[..., 2:] - small_views[..., :2]).prod(dim=-1).abs()
        order = area.argsort(dim=0, descending=True, stable=True)[: sum(self.layout.cells)]
        small_views = small_views.gather(0, order[..., None].expand(-1, -1, 4))
        boxes = boxes_in_crop(small_views, image_views, self.layout.image_px)
        return order, *cut_to_crop(boxes, self.layout.image_px, least=_LEAST_INSIDE)

    def _pool_cells(self, maps: Tensor, cells: Tensor) -> Tensor:
        """Pool cells (2, n, B, 4) of the first maps (N_g, B, C, h, w): (2, n, B, C)."""
        maps = maps[:NUM_PYRAMIDS].flatten(0, 1).float()  # bfloat16 would round the boxes
        if not self.head.cell_gradient:
            maps = maps.detach()
        boxes = cells.transpose(1, 2).flatten(0, 1)  # (2 B, n, 4)
        pooled = mean_in_boxes(maps, boxes, self.layout.image_px, samples=_SAMPLES)
        return pooled.unflatten(0, (NUM_PYRAMIDS, -1)).transpose(1, 2)

    def _cut_out(
        self, inputs: Sequence[Tensor], cells: Tensor, is_pair: Tensor
    ) -> Sequence[Tensor]:
        """Set frames around cells of the image views, the first of all crops, to 0."""
        if not self.cutout:
            return inputs
        crops, margin = inputs[0], self.cutout * (cells[..., 2:] - cells[..., :2])
        wider = cells + torch.cat([-margin, margin], dim=-1)
        inner, outer = (
            (pixels_in_boxes(each, crops.shape[-1]) & is_pair[..., None, None]).any(dim=1)
            for each in (cells, wider)
        )
        frames = (outer & ~inner)[:, :, None]  # (2, B, 1, px, px)
        framed = crops[:NUM_PYRAMIDS].masked_fill(frames, 0)
        return [torch.cat([framed, crops[NUM_PYRAMIDS:]]), *inputs[1:]]


def crop_maps(backbone: nn.Module, crops: Tensor, stage: int = -1) -> tuple[Tensor, Tensor]:
    """Run a backbone on crops (N_g, B, 3, px, px).

    Returns:
        Its pooled features (N_g, B, C), as ``crop_features``, and its map (N_g, B, C, h, w) of a
        stage.
    """
    outputs = crop_outputs(backbone, crops)
    outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
    if not -len(outputs) <= stage < len(outputs) or outputs[stage].dim() != 4:
        raise UserValueError(
            f"SSPRLCells: output {stage} of the backbone must be a map (N, C, h, w), but its "
            f"outputs are {[tuple(each.shape) for each in outputs]}; set stage, out_indices of the "
            "backbone, or for a ViT out_type='featmap'."
        )
    return tuple(each.unflatten(0, crops.shape[:2]) for each in (pool(outputs), outputs[stage]))
