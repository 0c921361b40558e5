"""Losses of the baselines: MoCo's contrastive loss and BYOL's prediction loss.

Legend: B images per rank, R rows, D embedding size, K negatives, J extra negatives per row.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

_LOGITS_AT_ONCE = 2**24
"""64 MiB in float32. DenseCL's 64 x 49 rows against 65,536 negatives would be 0.8 GB a copy."""


def info_nce(
    query: Tensor,
    positive: Tensor,
    negatives: Tensor,
    *,
    temperature: float,
    extra: Tensor | None = None,
) -> Tensor:
    """Contrast each query with its own key and the negatives (InfoNCE).

    For a query q, its key k and negatives X, with temperature T:
    ``-q.k / T + log(exp(q.k / T) + sum_{x in X} exp(q.x / T))``. If all cosines are equal, this is
    ln(1 + K).

    The negatives are processed in parts. The backward pass recomputes the logits of each part.

    Args:
        query: (R, D), unit norm; the only input with a gradient.
        positive: The key of each query (R, D), unit norm.
        negatives: Negatives of all queries (K, D), unit norm.
        temperature: T > 0.
        extra: Further negatives of single queries (R, J, D), unit norm.

    Returns:
        The mean over the rows, a scalar in float32 (float64 for float64 queries).
    """
    with torch.autocast(query.device.type, enabled=False):
        dtype = torch.promote_types(query.dtype, torch.float32)
        query = query.to(dtype) / temperature
        negatives = negatives.detach().to(dtype)
        own = (query * positive.detach().to(dtype)).sum(dim=1)  # (R,)

        log_sums = [own]
        if extra is not None:
            # (R, 1, D) x (R, D, J) -> (R, J)
            logits = (query[:, None] @ extra.detach().to(dtype).mT)[:, 0]
            log_sums.append(logits.logsumexp(dim=1))
        for part in negatives.split(max(1, _LOGITS_AT_ONCE // len(query))):
            # Nothing is random here, so the recomputation needs no random state.
            log_sum = checkpoint(
                _log_sum, query, part, use_reentrant=False, preserve_rng_state=False
            )
            log_sums.append(log_sum)
        return (torch.stack(log_sums).logsumexp(dim=0) - own).mean()


def _log_sum(query: Tensor, negatives: Tensor) -> Tensor:
    return (query @ negatives.T).logsumexp(dim=1)


def prediction_loss(predictions: Sequence[Tensor], targets: Sequence[Tensor]) -> Tensor:
    """Compute L = mean_b [(2 - 2 cos(p_0, y_1)) + (2 - 2 cos(p_1, y_0))], from 0 to 8.

    Predictions and targets are two tensors (B, D) each, of any norm. Targets get no gradient. The
    result is float32 (float64 for float64 predictions), and larger than mmpretrain's by 4.
    """
    p = torch.stack(list(predictions))  # (2, B, D)
    y = torch.stack(list(targets)).detach()  # (2, B, D)
    dtype = torch.promote_types(p.dtype, torch.float32)
    cosines = F.cosine_similarity(p.to(dtype), y.flip(0).to(dtype), dim=-1)
    return (2 - 2 * cosines).sum(0).mean()
