"""Prototypes C_s, correlation learners g_s, and statistics of the assignments for the log.

See the legend of ``sinkhorn_head``.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..functional import log_softmax, mean_perplexity
from ..pyramid import NUM_PYRAMIDS


class _UnitRows(nn.Module):
    """A linear map without bias; its rows are unit vectors."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(F.normalize(torch.randn(out_channels, in_channels)))

    @torch.no_grad()
    def normalize_(self) -> None:
        """Scale each row to unit norm in place. Called before each step."""
        self.weight.copy_(F.normalize(self.weight))

    def forward(self, unit: Tensor, frozen: bool = False) -> Tensor:
        """Map unit vectors (..., in_channels) to their cosines with the rows.

        If ``frozen``, the gradient of the weight is exactly zero.
        """
        return F.linear(unit, _ZeroGradient.apply(self.weight) if frozen else self.weight)


class Prototypes(_UnitRows):
    """Prototypes C_s of one scale: map embeddings (..., D) to scores (..., K_s).

    The rows of ``weight`` (K_s, D) and the embeddings have unit norm.
    """


class CorrelationLearner(_UnitRows):
    """g_s of Eq. 3: map the prototypes of patch scale s to the prototypes of the image.

    The paper says only "project". As in the released code, the map is linear without bias, its
    input and its rows are L2-normalised, and its output is divided by tau before the softmax.
    ``weight`` is (K_0, K_s), rows of unit norm.
    """

    def forward(self, mean_predictions: Tensor, frozen: bool = False) -> Tensor:
        """Map mu(P_s) (..., K_s) to cosines (..., K_0) with the prototypes of the image."""
        return super().forward(F.normalize(mean_predictions, dim=-1), frozen)


class _ZeroGradient(torch.autograd.Function):
    """Identity with a gradient of zero.

    With ``detach``, DDP would wait for a gradient that never comes. With a product with zero, an
    overflow of the loss scaler would become NaN.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        return torch.zeros_like(grad)


class AssignmentRecord(nn.Module):
    """Scores and codes of the last step, and the last step in which each prototype was in use.

    A prototype is in use if it is the nearest one to some row of this rank. Only steps that are
    followed by ``mark_use`` count. Nothing here waits for the device.
    """

    last_use: Tensor
    """Steps, over all scales; -1 is never. Checkpoints hold the values of rank 0, which logs."""

    def __init__(self, counts: Sequence[int]) -> None:
        super().__init__()
        self._counts = list(counts)
        self.register_buffer("last_use", torch.full((sum(counts),), -1))
        self._last: list[tuple[Tensor, Tensor]] = []
        self._step = 0

    def note(self, scores: Sequence[Tensor], codes: Sequence[Tensor], step: int) -> None:
        """Store cosines (V, M_s, B, K_s) and codes (2, N, K_s) of the assigned scales."""
        self._step = step
        # The two pyramids come first in V.
        kept = [each.detach()[:NUM_PYRAMIDS] for each in scores]
        self._last = list(zip(kept, codes, strict=False))

    def mark_use(self) -> None:
        """Mark the prototypes that were in use in the stored step."""
        of_scale = self.last_use.split(self._counts)
        for last_use, (scores, _) in zip(of_scale, self._last, strict=False):
            last_use.index_fill_(0, scores.argmax(dim=-1).flatten(), self._step)

    def examine(self, *, temperature: float, window: int | None = None) -> dict[str, Tensor]:
        """Return three scalars in (0, 1] per scale, each divided by K_s.

        'prototypes_in_use_s<s>': prototypes in use in the last ``window`` steps, or in all (None).
        'code_perplexity_s<s>': mean perplexity of the codes; 1 if every code is uniform.
        'prediction_perplexity_s<s>': perplexity of the mean prediction; 1 if it is uniform.
        """
        self.mark_use()
        since = 0 if window is None else max(0, self._step + 1 - window)
        found = {}
        of_scale = self.last_use.split(self._counts)
        for scale, (scores, codes) in enumerate(self._last):
            count = scores.shape[-1]
            mean = log_softmax(scores, temperature).exp().mean(dim=(0, 1, 2))  # (K_s,)
            use = (of_scale[scale] >= since).float().mean()
            found[f"prototypes_in_use_s{scale}"] = use
            found[f"code_perplexity_s{scale}"] = mean_perplexity(codes) / count
            found[f"prediction_perplexity_s{scale}"] = mean_perplexity(mean) / count
        return found
