"""Measures that show early, without labels, whether a training learns.

Legend: R rows, D embedding size, K negatives or, for probabilities, prototypes.
"""

import torch
from torch import Tensor


@torch.no_grad()
def embedding_spread(embeddings: Tensor) -> Tensor:
    """Return the standard deviation over rows, averaged over dimensions, times sqrt(D); float32.

    For unit vectors (R, D), R >= 2: about 1 if they fill the sphere, 0 if all are equal.
    """
    return embeddings.float().std(dim=0).mean() * embeddings.shape[1] ** 0.5


@torch.no_grad()
def queue_top1(query: Tensor, positive: Tensor, negatives: Tensor) -> Tensor:
    """Return the share of queries that are nearer to their own key than to every negative.

    Above 0.99 early, with useless features, means that batch statistics reveal the key. ``query``
    and ``positive`` are (R, D), ``negatives`` (K, D), all of unit norm.
    """
    query = query.float()
    # Keys of early training differ by less than bfloat16 resolves.
    with torch.autocast(query.device.type, enabled=False):
        nearest = (query @ negatives.float().T).amax(dim=1)
    return ((query * positive.float()).sum(dim=1) > nearest).float().mean()


@torch.no_grad()
def effective_rank(embeddings: Tensor) -> Tensor:
    """Return RankMe (Garrido et al., ICML 2023), the number of dimensions that embeddings fill.

    exp(-sum_k p_k log p_k) with p_k = sigma_k / sum_j sigma_j, for the singular values sigma of the
    rows (R, D), not centred. The paper adds 1e-7 to each p_k. From 1, if all rows are collinear, to
    min(R, D); float32. NaN counts as 0. On a GPU this waits for the device.
    """
    sigma = torch.linalg.svdvals(embeddings.double().nan_to_num())
    return torch.special.entr(sigma / sigma.sum()).sum().exp().float()


@torch.no_grad()
def alignment(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean cosine of two views of one image, and of views of different images; float32.

    The first is 1 - l / 2 for the alignment loss ``l = mean |x - y|^2`` of Wang and Isola (ICML
    2020). If both are equal, the embeddings carry no information about the image. Row r of
    ``second`` is the other view of row r of ``first``, both (R, D) of unit norm, R >= 2.
    """
    first = first.float()
    second = second.float()
    rows = len(first)
    own = (first * second).sum()
    with torch.autocast(first.device.type, enabled=False):
        others = first.sum(dim=0) @ second.sum(dim=0) - own
    return own / rows, others / (rows * (rows - 1))


@torch.no_grad()
def mean_perplexity(probabilities: Tensor) -> Tensor:
    """Return exp of the mean entropy of rows (R, K): the classes that a row spreads over, 1 to K.

    Rows of zeros are ignored. If there are no other rows, the result is 1.
    """
    entropies = torch.special.entr(probabilities).sum(dim=-1)
    num_rows = probabilities.any(dim=-1).sum().clamp(min=1)
    return (entropies.mean() * (entropies.numel() / num_rows)).exp()


def measure_views(first: Tensor, second: Tensor) -> dict[str, Tensor]:
    """Return 'effective_rank' of all rows, and 'alignment' and 'alignment_others' of the views."""
    own, others = alignment(first, second)
    rank = effective_rank(torch.cat([first, second]))
    return {"effective_rank": rank, "alignment": own, "alignment_others": others}
