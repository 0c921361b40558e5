"""The losses of ``SSPRLCells``.

Legend: B images per rank, n_s small views of scale s >= 1, D embedding size, K_s prototypes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import UserValueError
from ..functional import log_softmax, swapped_prediction_loss
from ..pyramid import NUM_PYRAMIDS, ViewLayout
from ..registry import MODELS
from .ranks import means_of_masked
from .sinkhorn_head import SinkhornHead


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
        args: Further arguments of ``SinkhornHead``.
        cell_gradient: Whether cells predict, too: that of one image view the code of the other's,
            where both are pairs, which trains the backbone through its maps. Eq. 2 is the mean over
            these pairs of cells as well.
        kwargs: Further arguments of ``SinkhornHead``.

    Raises:
        ValueError: A layout without cells, or as ``SinkhornHead``.
    """

    def __init__(
        self,
        layout: ViewLayout | Mapping,
        *args: Any,
        cell_gradient: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(layout, *args, **kwargs)
        if not self.layout.cells:
            raise UserValueError("CellHead: layout.cells must name small views, but it is empty.")
        self.cell_gradient = cell_gradient
        self.assignments.first_patch_view = NUM_PYRAMIDS

    def _terms(self, scores: Sequence[Tensor], codes: Sequence[Tensor]) -> dict[str, Tensor]:
        tau = self.temperature
        of_image = codes[0] if self.variant == "paper" else codes[0].mean(dim=0, keepdim=True)
        weights, errors, masks = {}, [], []
        for s, of_scale in enumerate(scores[1:], start=1):
            cells, small = of_scale.split([NUM_PYRAMIDS, 1])
            is_pair = cells.any(dim=-1)  # scores of zeros are zeros, and no others are: (2, n_s, B)
            log_probs = log_softmax(small, tau)
            if self.with_pyramid:
                weights[f"loss_pyramid_s{s}"] = self.alpha[s]
                of_cells = codes[s].unflatten(1, is_pair.shape[1:])  # (2, n_s, B, K_s)
                errors.append(-(of_cells * log_probs).sum(dim=-1))
                masks.append(is_pair)
                if self.cell_gradient:  # each the code of the other view
                    others = -(of_cells * log_softmax(cells, tau).flip(0)).sum(dim=-1)
                    errors[-1] = torch.cat([errors[-1], others])
                    masks[-1] = torch.cat([is_pair, is_pair.all(dim=0).expand_as(is_pair)])
            if self.with_cross:
                weights[f"loss_cross_s{s}"] = self.cross_weight * self.beta[s]
                learner = self.correlation[s - 1]
                learner.normalize_()
                predicted = log_probs.exp() if self.variant == "paper" else small
                cross_scores = learner(_mean_of_pairs(predicted, is_pair), self.is_frozen)
                predictions = log_softmax(cross_scores, tau)
                errors.append(-(of_image * predictions).sum(dim=-1))  # (2, B)
                masks.append(is_pair.any(dim=1))
        term = swapped_prediction_loss(scores[0].flatten(1, 2), codes[0], temperature=tau)
        terms = zip(weights.items(), means_of_masked(errors, masks), strict=True)
        return {"loss_pyramid_s0": term, **{name: w * mean for (name, w), mean in terms}}


def _mean_of_pairs(predicted: Tensor, is_pair: Tensor) -> Tensor:
    """mu(P_s) of both image views (2, B, K_s) from (1, n_s, B, K_s); zeros without a pair."""
    count = is_pair.sum(dim=1).clamp(min=1)  # (2, B)
    return (predicted * is_pair[..., None]).sum(dim=1) / count[..., None]
