"""Prototypes C_s and correlation learners g_s: linear maps whose rows have unit norm."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class _UnitRows(nn.Module):
    """A linear map without bias whose rows are unit vectors."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(F.normalize(torch.randn(out_channels, in_channels)))

    @torch.no_grad()
    def normalize_(self) -> None:
        """Scale each row to unit norm in place; called before each step."""
        self.weight.copy_(F.normalize(self.weight))

    def _cosines(self, unit: Tensor, frozen: bool) -> Tensor:
        weight = _ZeroGradient.apply(self.weight) if frozen else self.weight
        return F.linear(unit, weight)


class Prototypes(_UnitRows):
    """Prototypes C_s of one scale: ``weight`` (K_s, D), rows of unit norm."""

    def forward(self, embeddings: Tensor, frozen: bool = False) -> Tensor:
        """Score embeddings (..., D) of unit norm: cosines (..., K_s).

        ``frozen`` gives the prototypes a gradient of exactly zero.
        """
        return self._cosines(embeddings, frozen)


class CorrelationLearner(_UnitRows):
    """g_s of Eq. 3: from the prototypes of patch scale s to the image's prototypes.

    The paper says only "project". As in the released code it is linear without bias, its input
    and its rows are L2-normalised, and its output is divided by tau before the softmax. ``weight``
    is (K_0, K_s), rows of unit norm.
    """

    def forward(self, mean_predictions: Tensor, frozen: bool = False) -> Tensor:
        """Map mu(P_s) (..., K_s) to cosines (..., K_0) with the image's prototypes.

        ``frozen`` gives the learner a gradient of exactly zero.
        """
        return self._cosines(F.normalize(mean_predictions, dim=-1), frozen)


class _ZeroGradient(torch.autograd.Function):
    """Identity whose gradient is zero.

    Unlike ``detach`` the parameter stays part of the graph, which DDP waits for; unlike a
    product with zero, an overflow of the loss scaler does not become NaN.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        return torch.zeros_like(grad)
