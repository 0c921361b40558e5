"""Numbers that tell early, and without labels, whether a training learns.

Legend: R rows, D embedding size, K negatives, or prototypes where there are probabilities.
"""

import torch
from torch import Tensor


@torch.no_grad()
def embedding_spread(embeddings: Tensor) -> Tensor:
    """Standard deviation over the rows, a mean over the dimensions, times sqrt(D); float32.

    About 1 where unit vectors (R, D), R >= 2, fill the sphere, 0 where all are the same.
    """
    return embeddings.float().std(dim=0).mean() * embeddings.shape[1] ** 0.5


@torch.no_grad()
def queue_top1(query: Tensor, positive: Tensor, negatives: Tensor) -> Tensor:
    """Share of the queries that are nearer to their own key than to every negative.

    Over 0.99 early, with features that are good for nothing: batch statistics give the key away.
    ``query`` and ``positive`` are (R, D), ``negatives`` (K, D), all of unit norm.
    """
    query = query.float()
    nearest = (query @ negatives.float().T).amax(dim=1)
    return ((query * positive.float()).sum(dim=1) > nearest).float().mean()


@torch.no_grad()
def effective_rank(embeddings: Tensor) -> Tensor:
    """RankMe (Garrido et al., ICML 2023): how many dimensions the embeddings fill.

    exp(-sum_k p_k log p_k) of p_k = sigma_k / sum_j sigma_j, the singular values sigma of (R, D),
    not centred. The paper adds 1e-7 to each p_k. From 1, all rows in one line, to min(R, D),
    float32. NaN counts as 0. On a GPU it waits for the device.
    """
    sigma = torch.linalg.svdvals(embeddings.double().nan_to_num())
    return torch.special.entr(sigma / sigma.sum()).sum().exp().float()


@torch.no_grad()
def alignment(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Mean cosine of the two views of an image, and of views of different images.

    The first is 1 - l / 2 of the alignment loss ``l = mean |x - y|^2`` of Wang and Isola (ICML
    2020). Where both are equal, the embeddings tell nothing about the image. Row r of ``second`` is
    the other view of row r of ``first``, both (R, D) of unit norm, R >= 2; float32 in [-1, 1].
    """
    first, second = first.float(), second.float()
    rows = len(first)
    own = (first * second).sum()
    others = first.sum(dim=0) @ second.sum(dim=0) - own
    return own / rows, others / (rows * (rows - 1))


@torch.no_grad()
def mean_perplexity(probabilities: Tensor) -> Tensor:
    """How many classes a row of (R, K) is spread over: exp of the rows' mean entropy, 1 to K.

    Rows of zeros do not count; 1 without any other.
    """
    entropies = torch.special.entr(probabilities).sum(dim=-1)
    num_rows = probabilities.any(dim=-1).sum().clamp(min=1)
    return (entropies.mean() * (entropies.numel() / num_rows)).exp()


def measure_views(first: Tensor, second: Tensor) -> dict[str, Tensor]:
    """Return 'effective_rank' of all rows, and 'alignment' and 'alignment_others' of two views."""
    own, others = alignment(first, second)
    rank = effective_rank(torch.cat([first, second]))
    return {"effective_rank": rank, "alignment": own, "alignment_others": others}
