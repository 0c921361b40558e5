"""SS-PRL whose patches are cells of the image views' maps: this package's own form.

Legend: N_g crops per image in resolution group g, B images and W ranks, n small views of an image
that have a scale s >= 1, n_s of them scale s, C features, h and w sides of a map, D embedding size,
K_s prototypes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from mmengine import dist
from torch import Tensor, nn

from ..errors import UserValueError
from ..functional import log_softmax, phases, swapped_prediction_loss
from ..functional.boxes import boxes_in_crop, cut_to_crop, pool_boxes
from ..functional.pooling import pool
from ..pyramid import NUM_PYRAMIDS, ViewLayout
from ..registry import MODELS
from .protocol import Region
from .sinkhorn_head import SinkhornHead
from .ssprl import SSPRL, last_map

_LEAST_INSIDE = 0.6
_SAMPLES = 7
"""Points per side at which a cell is read: as many as the last map of a 224 px view has pixels."""


@MODELS.register_module()
class SSPRLCells(SSPRL):
    """SS-PRL that encodes no patches: its pairs are small views and cells of the image views.

    This package's own form, and no part of the paper. Small views are independent crops, as in
    SwAV. The n_1 largest of an image are of scale 1, the next n_2 of scale 2, see
    ``ViewLayout.cells``. The cell of a small view is the same place of the image in an image view:
    a box of that view's feature map, cut out by RoIAlign and pooled. Where at least 60 % of the box
    lie inside the view, both are a pair of Eq. 2; ``CellHead`` has the terms. Nothing more is
    encoded than by SwAV, and with ``alpha = beta = 0`` weights move exactly as SwAV's do.

    The projection heads normalise cells and small views apart: what tells all cells from all small
    views says nothing of a place. A cell without a pair counts for nothing but the statistics of
    that BatchNorm, with the features of the nearest place inside the view.

    Args:
        args, kwargs: As ``SSPRL``. The layout must have ``cells``, the backbone give a feature map,
            and the head be a ``CellHead``.
    """

    has_cells: ClassVar[bool] = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not isinstance(self.head, CellHead):
            kind = type(self.head).__name__
            raise UserValueError(f"SSPRLCells: head.type must be CellHead, but got {kind}.")

    def loss(self, inputs: Sequence[Tensor], data_samples: Any = None) -> dict[str, Tensor]:
        """Compute the weighted loss terms of ``CellHead.loss``; their sum is Eq. 4.

        Args:
            inputs: One tensor (N_g, B, 3, px, px) per group of the layout.
            data_samples: ``places`` of the crops, one tensor (N_g, B, 4) per group.
        """
        order, cells, is_pair = self._find_cells(data_samples)
        with phases.phase(phases.BACKBONE_FORWARD):
            outputs = self._encode(crop_maps, inputs)
            (image_scale,) = self.layout.split([pooled for pooled, _ in outputs])
            with torch.no_grad():
                of_cells = self._pool_cells(outputs[0][1], cells)
            of_crops = torch.cat([maps.mean(dim=(3, 4)) for _, maps in outputs])  # (N, B, C)
            of_small = of_crops[NUM_PYRAMIDS:].gather(
                0, order[..., None].expand(-1, -1, of_crops.shape[2])
            )
        phases.backward_goes_on_as(phases.BACKBONE_BACKWARD, [image_scale, of_small])
        with phases.phase(phases.HEADS_FORWARD):
            sizes = self.layout.cells
            embeddings = self.neck([image_scale, *(each[None] for each in of_small.split(sizes))])
            with torch.no_grad():
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
        """Mark the cells of the first image that are pairs."""
        _, cells, is_pair = self._find_cells(data_samples)
        parts = [each[:, :, 0].split(self.layout.cells, 1) for each in (cells, is_pair)]
        regions = [
            Region(view, f"s = {scale}", boxes[view][pairs[view]][None])
            for scale, (boxes, pairs) in enumerate(zip(*parts, strict=True), start=1)
            for view in range(NUM_PYRAMIDS)
        ]
        return inputs, regions

    def _find_cells(self, data_samples: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Look for the cells of small views, the largest of each image first.

        Returns which small views these are (n, B), their cells (2, n, B, 4) in pixels of the image
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
        boxes = cells.transpose(1, 2).flatten(0, 1)  # (2 B, n, 4)
        px = self.layout.image_px
        pooled = pool_boxes(maps, boxes, px, cells=1, sampling_ratio=_SAMPLES)
        return pooled.view(NUM_PYRAMIDS, -1, boxes.shape[1], maps.shape[1]).transpose(1, 2)


def crop_maps(backbone: nn.Module, crops: Tensor) -> tuple[Tensor, Tensor]:
    """Give the features (N_g, B, C), as ``crop_features``, and the last map (N_g, B, C, h, w)."""
    maps = last_map(backbone, crops, "SSPRLCells")
    return pool(maps).unflatten(0, crops.shape[:2]), maps.unflatten(0, crops.shape[:2])


@MODELS.register_module()
class CellHead(SinkhornHead):
    """``SinkhornHead`` for pairs of a small view and its cell in an image view.

    This package's own form of the equations. Eq. 1, Eq. 4 and scale 0 are as there. For s >= 1:

    * Codes are those of the cells, one assignment per image view over its pairs alone. What is no
      pair lies in the queue as a row of zeros, and takes no part from there either.
    * Eq. 2: a small view predicts the code of its cell; a mean over all pairs.
    * Eq. 3: mu(P_s) of an image view is the mean prediction of the small views that have a cell
      there; g_s makes of it the prediction of the view's code; a mean over views with such cells.

    Embeddings of s >= 1 are (3, n_s, B, D): the cells in both image views, of zeros where there is
    no pair, then the small views. Means are over all ranks together. Without any pair in a batch
    terms are 0, with gradients of 0.

    Args:
        layout: The views, with ``cells``, which take the place of levels in all that follows.
        args, kwargs: Further arguments of ``SinkhornHead``.

    Raises:
        ValueError: A layout without cells, or as ``SinkhornHead``.
    """

    def __init__(self, layout: ViewLayout | Mapping, *args: Any, **kwargs: Any) -> None:
        super().__init__(layout, *args, **kwargs)
        if not self.layout.cells:
            raise UserValueError("CellHead: layout.cells must name small views, but it is empty.")
        self.assignments.first_patch_view = NUM_PYRAMIDS

    def _terms(self, scores: Sequence[Tensor], codes: Sequence[Tensor]) -> dict[str, Tensor]:
        tau = self.temperature
        of_image = codes[0] if self.variant == "paper" else codes[0].mean(dim=0, keepdim=True)
        weights, errors, masks = {}, [], []
        for s, of_scale in enumerate(scores[1:], start=1):
            # Scores of zeros are zeros, and no others are: (2, n_s, B).
            is_pair = of_scale[:NUM_PYRAMIDS].any(dim=-1)
            if self.with_pyramid:
                weights[f"loss_pyramid_s{s}"] = self.alpha[s]
                errors.append(self._pair_errors(of_scale, codes[s]))
                masks.append(is_pair)
            if self.with_cross:
                weights[f"loss_cross_s{s}"] = self.cross_weight * self.beta[s]
                learner = self.correlation[s - 1]
                learner.normalize_()
                predictions = learner(self._mean_of_pairs(of_scale, is_pair), self.is_frozen)
                errors.append(-(of_image * log_softmax(predictions, tau)).sum(dim=-1))  # (2, B)
                masks.append(is_pair.any(dim=1))
        term = swapped_prediction_loss(scores[0].flatten(1, 2), codes[0], temperature=tau)
        terms = zip(weights.items(), means_of_masked(errors, masks), strict=True)
        return {"loss_pyramid_s0": term, **{name: w * mean for (name, w), mean in terms}}

    def _pair_errors(self, scores: Tensor, codes: Tensor) -> Tensor:
        """Cross-entropies of small views with the codes of both image views: (2, n_s, B)."""
        small = log_softmax(scores, self.temperature)[NUM_PYRAMIDS:]
        return -(codes.unflatten(1, scores.shape[1:3]) * small).sum(-1)

    def _mean_of_pairs(self, scores: Tensor, is_pair: Tensor) -> Tensor:
        """mu(P_s) of both image views (2, B, K_s); zeros where a view has no pair."""
        small = scores[NUM_PYRAMIDS:]
        if self.variant == "paper":
            small = log_softmax(small, self.temperature).exp()
        count = is_pair.sum(dim=1).clamp(min=1)  # (2, B)
        return (small * is_pair[..., None]).sum(dim=1) / count[..., None]


def means_of_masked(values: Sequence[Tensor], masks: Sequence[Tensor]) -> list[Tensor]:
    """Return scalars whose means over the ranks are those of the masked values of all ranks.

    W / N times the sum on this rank, N counted over all ranks in one collective: so that gradients,
    which DDP averages, are those of one process. Where nothing counts, 0 with gradients of 0.
    """
    counts = torch.stack([mask.sum() for mask in masks])
    dist.all_reduce(counts)
    weights = dist.get_world_size() / counts.clamp(min=1)
    totals = [(each * mask).sum() for each, mask in zip(values, masks, strict=True)]
    return [total * weight for total, weight in zip(totals, weights, strict=True)]
