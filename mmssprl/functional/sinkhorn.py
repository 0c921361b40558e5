"""Sinkhorn-Knopp: balanced soft assignment of embeddings to prototypes.

Legend: B rows of this rank, K prototypes, W ranks.

For the kernel E = exp(S / epsilon) the iteration scales prototypes (u) and rows (v) in turn,

    u_k = 1 / (K sum_b E_bk v_b),    v_b = 1 / (B sum_k E_bk u_k),    v starting at 1,

where the sum over b runs over the rows of all ranks. The code is E_bk u_k v_b with its rows
scaled to sum 1, so the constant factors K and B cancel and softmax_k(S_bk / epsilon + log u_k)
is left. u and v are kept as logarithms: at epsilon = 0.005 the kernel spans exp(-400)..1, which
float32 cannot hold, and subtracting each row's maximum instead changes the result of a few
iterations. A row that does not count has v = 0.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch import distributed as dist

from ..errors import UserValueError
from .phases import COMMUNICATION, SINKHORN, phase

_LOG_OF_ZERO = -1e30
"""Finite, so that no difference is NaN where no row counts at all; its exponential is exactly 0."""


def sinkhorn(scores: Tensor, *, epsilon: float = 0.05, num_iters: int = 3) -> Tensor:
    """Turn prototype scores into balanced soft codes, over the rows of all ranks.

    Args:
        scores: Cosine scores (B, K) in [-1, 1] of any floating type; no gradient flows.
        epsilon: Entropy regularisation > 0; smaller is sharper. Paper: 0.05.
        num_iters: Iterations >= 1, each normalising prototypes, then rows. Paper: 3.

    Returns:
        Codes (B, K), float32; rows sum to 1, and the columns of all ranks together tend to
        equal sums.

    Raises:
        ValueError: ``epsilon <= 0`` or ``num_iters < 1``.
    """
    return sinkhorn_jointly([scores], epsilon=epsilon, num_iters=num_iters)[0]


@torch.no_grad()
def sinkhorn_jointly(
    problems: Sequence[Tensor],
    *,
    epsilon: float = 0.05,
    num_iters: int = 3,
    num_coded: Sequence[int] | None = None,
    is_counted: Sequence[Tensor | None] | None = None,
) -> list[Tensor]:
    """Solve independent assignments as :func:`sinkhorn`, with one collective per iteration.

    Args:
        problems: Scores (B_i, K_i); the K_i are equal on all ranks.
        epsilon: See :func:`sinkhorn`; so is ``num_iters``.
        num_coded: N_i, rows of each problem whose codes are wanted; the rows behind them only
            help to balance the prototypes. None takes all.
        is_counted: Of each problem (B_i,), bool: the rows that there are, the others take no part
            and have codes of 0. None, there or here, counts all.

    Returns the codes (N_i, K_i) of each problem, float32.
    """
    if epsilon <= 0 or num_iters < 1:
        raise UserValueError(
            "sinkhorn: epsilon must be > 0 and num_iters >= 1, "
            f"but got {epsilon} and {num_iters}; the paper uses 0.05 and 3."
        )
    with phase(SINKHORN), torch.autocast(problems[0].device.type, enabled=False):
        problems = [scores.float() for scores in problems]
        workspace = problems[0].new_empty(max(scores.numel() for scores in problems))

        def log_kernel(scores: Tensor) -> Tensor:
            """Return log E, which lies in the workspace until the next call."""
            # The shift cancels; it keeps scores near 1, which matter, small and therefore exact.
            out = workspace[: scores.numel()].view_as(scores)
            return torch.sub(scores, 1, out=out).div_(epsilon)

        num_prototypes = [scores.shape[1] for scores in problems]
        masks = is_counted or [None] * len(problems)
        log_v = [
            _of_counted_(scores.new_zeros(len(scores), 1), mask, _LOG_OF_ZERO)
            for scores, mask in zip(problems, masks, strict=True)
        ]
        for _ in range(num_iters):
            column_sums = [
                _logsumexp_(log_kernel(scores).add_(v), dim=0).squeeze(0)
                for scores, v in zip(problems, log_v, strict=True)
            ]
            log_u = (-_logsumexp_over_ranks(torch.cat(column_sums))).split(num_prototypes)
            log_v = [
                _of_counted_(-_logsumexp_(log_kernel(scores).add_(u), dim=1), mask, _LOG_OF_ZERO)
                for scores, u, mask in zip(problems, log_u, masks, strict=True)
            ]
        counts = num_coded or [len(scores) for scores in problems]
        return [
            _of_counted_(log_kernel(scores[:count]).add_(u).softmax(dim=1), mask, 0)
            for scores, u, mask, count in zip(problems, log_u, masks, counts, strict=True)
        ]


def _of_counted_(rows: Tensor, mask: Tensor | None, otherwise: float) -> Tensor:
    """Overwrite the rows that do not count, of the first len(rows) of a mask."""
    return rows if mask is None else rows.masked_fill_(~mask[: len(rows), None], otherwise)


def _logsumexp_(values: Tensor, dim: int) -> Tensor:
    """Return ``values.logsumexp(dim, keepdim=True)`` of finite values, which are overwritten."""
    largest = values.amax(dim, keepdim=True)
    return values.sub_(largest).exp_().sum(dim, keepdim=True).log_().add_(largest)


def _logsumexp_over_ranks(values: Tensor) -> Tensor:
    if not (dist.is_available() and dist.is_initialized()):
        return values
    ranks = values.new_empty(dist.get_world_size() * values.numel())
    with phase(COMMUNICATION):
        dist.all_gather_into_tensor(ranks, values)
    return ranks.view(-1, values.numel()).logsumexp(dim=0)  # (W, K) -> (K,)
