"""Sinkhorn-Knopp: balanced soft assignment of embeddings to prototypes.

Legend: P assignments of one shape, B rows of this rank, K prototypes, W ranks.

For the kernel E = exp(S / epsilon) the iteration scales prototypes (u) and rows (v) in turn,

    u_k = 1 / (K sum_b E_bk v_b),    v_b = 1 / (B sum_k E_bk u_k),    v starting at 1,

where the sum over b runs over the rows of all ranks. The code is E_bk u_k v_b with rows scaled to
sum 1. The constant factors K and B cancel, so one iteration is

    Q_bk = softmax_k(S_bk / epsilon + log u_k),    then    log u_k <- log u_k - log sum_b Q_bk.

u is kept as a logarithm, because the kernel spans exp(-400)..1 at epsilon = 0.005, which float32
cannot represent. The sums of Q need no logarithm: before its rows are scaled, every prototype sums
to 1. A row of K entries, each at most 1, is scaled by at least 1 / K. So after the scaling every
prototype sums to at least 1 / K. A row that does not count has v = 0.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch import distributed as dist

from ..errors import UserValueError


def sinkhorn(scores: Tensor, *, epsilon: float = 0.05, num_iters: int = 3) -> Tensor:
    """Turn prototype scores into balanced soft codes, over the rows of all ranks.

    Args:
        scores: Cosine scores (B, K) in [-1, 1] of any floating type; no gradient flows.
        epsilon: Entropy regularisation > 0; smaller values give sharper codes. Paper: 0.05.
        num_iters: Iterations >= 1. Each normalises prototypes, then rows. Paper: 3.

    Returns:
        Codes (B, K), float32. Rows sum to 1, and columns have nearly equal sums over all ranks.

    Raises:
        ValueError: ``epsilon <= 0`` or ``num_iters < 1``.
    """
    return sinkhorn_jointly([scores[None]], epsilon=epsilon, num_iters=num_iters)[0][0]


@torch.no_grad()
def sinkhorn_jointly(
    problems: Sequence[Tensor],
    *,
    epsilon: float = 0.05,
    num_iters: int = 3,
    num_coded: Sequence[int] | None = None,
) -> list[Tensor]:
    """Solve independent assignments like :func:`sinkhorn`, with one collective per iteration.

    ``problems`` are scores (P_i, B_i, K_i) of P_i assignments each; P_i and K_i must be equal on
    all ranks. Returns codes (P_i, N_i, K_i), float32, of the first N_i rows, ``num_coded``, or of
    all. The other rows only help to balance the prototypes.
    """
    if epsilon <= 0 or num_iters < 1:
        raise UserValueError(
            "sinkhorn: epsilon must be > 0 and num_iters >= 1, "
            f"but got {epsilon} and {num_iters}; the paper uses 0.05 and 3."
        )
    counts = num_coded or [scores.shape[1] for scores in problems]
    with torch.autocast(problems[0].device.type, enabled=False):
        # The shift cancels. It makes the scores near 1, which matter most, small and so exact.
        kernels = [scores.float().sub(1).div_(epsilon) for scores in problems]
        sums = [kernel.logsumexp(dim=1) for kernel in kernels]
        log_u = [-each for each in _over_ranks(sums)]  # (P_i, K_i)

        for _ in range(num_iters - 1):
            parts = zip(kernels, log_u, strict=True)
            sums = [_codes(*each).sum(dim=1).log_() for each in parts]
            log_u = [u - each for u, each in zip(log_u, _over_ranks(sums), strict=True)]

        coded = [kernel[:, :count] for kernel, count in zip(kernels, counts, strict=True)]
        return [_codes(*each) for each in zip(coded, log_u, strict=True)]


def _codes(kernel: Tensor, log_u: Tensor) -> Tensor:
    """Return E u v: (P, N, K)."""
    return (kernel + log_u[:, None]).softmax(dim=-1)


def _over_ranks(log_sums: Sequence[Tensor]) -> Sequence[Tensor]:
    """Sum values over the ranks, given and returned as logarithms (P_i, K_i)."""
    if not (dist.is_available() and dist.is_initialized()):
        return log_sums
    values = torch.cat([each.flatten() for each in log_sums])
    ranks = values.new_empty(dist.get_world_size() * values.numel())
    dist.all_gather_into_tensor(ranks, values)
    joined = ranks.view(-1, values.numel()).logsumexp(dim=0)  # (W, sum of P_i K_i)
    parts = joined.split([each.numel() for each in log_sums])
    return [part.view_as(each) for part, each in zip(parts, log_sums, strict=True)]
