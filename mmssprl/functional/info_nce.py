"""The contrastive loss of MoCo and of the methods that build on it.

Legend: R rows, D embedding size, K negatives, J extra negatives per row.
"""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..errors import UserValueError

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
    """Tell each query's own key from the negatives.

    For a query q, its key k and negatives X, with temperature T:
    ``-q.k / T + log(exp(q.k / T) + sum_{x in X} exp(q.x / T))``. All equal, it reads ln(1 + K).

    The logits of all rows and negatives are never in memory at once: the negatives are taken in
    parts, and the backward pass computes each part's logits again.

    Args:
        query: (R, D), unit norm; the only one that a gradient flows into.
        positive: The key of each query (R, D), unit norm.
        negatives: Common to all queries (K, D), unit norm.
        temperature: T > 0.
        extra: More negatives of each query, of no other (R, J, D), unit norm.

    Returns:
        The mean over the rows, a scalar in float32 (float64 for float64 queries).

    Raises:
        ValueError: Shapes that do not fit each other.
    """
    given = [query, positive, negatives] + ([] if extra is None else [extra])
    shapes = [tuple(x.shape) for x in given]
    (rows, size), num_negatives = query.shape, len(negatives)
    expected = [(rows, size), (rows, size), (num_negatives, size)]
    if shapes[:3] != expected or any(s != (rows, *s[1:2], size) for s in shapes[3:]):
        raise UserValueError(
            "info_nce: query and positive must be (R, D), negatives (K, D) and extra (R, J, D), "
            f"but got {shapes}."
        )
    with torch.autocast(query.device.type, enabled=False):
        dtype = torch.promote_types(query.dtype, torch.float32)
        query = query.to(dtype) / temperature
        positive, negatives = positive.detach().to(dtype), negatives.detach().to(dtype)
        own = (query * positive).sum(dim=1, keepdim=True)  # (R, 1)
        log_sums = [own[:, 0]]
        if extra is not None:
            # (R, 1, D) x (R, D, J) -> (R, J)
            logits = (query[:, None] @ extra.detach().to(dtype).mT)[:, 0]
            log_sums.append(logits.logsumexp(dim=1))
        for part in negatives.split(max(1, _LOGITS_AT_ONCE // rows)):
            # There is no randomness whose state would have to be kept for the second time.
            log_sums.append(
                checkpoint(_log_sum, query, part, use_reentrant=False, preserve_rng_state=False)
            )
        return (torch.stack(log_sums).logsumexp(dim=0) - own[:, 0]).mean()


def _log_sum(query: Tensor, negatives: Tensor) -> Tensor:
    return (query @ negatives.T).logsumexp(dim=1)
