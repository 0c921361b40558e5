"""Numbers that tell early that a training has gone wrong; nothing here waits for the device.

Legend: R rows, D embedding size, K negatives.
"""

import torch
from torch import Tensor


@torch.no_grad()
def embedding_spread(embeddings: Tensor) -> Tensor:
    """Standard deviation over the rows, a mean over the dimensions, times sqrt(D).

    About 1 where unit vectors fill the sphere, below 0.3 where they have collapsed.

    Args:
        embeddings: (R, D), unit norm, R >= 2.

    Returns:
        A scalar in float32.
    """
    return embeddings.float().std(dim=0).mean() * embeddings.shape[1] ** 0.5


@torch.no_grad()
def queue_top1(query: Tensor, positive: Tensor, negatives: Tensor) -> Tensor:
    """Share of the queries that are nearer to their own key than to every negative.

    Over 0.99 early, with features that are good for nothing: batch statistics give the key away.

    Args:
        query: (R, D), unit norm.
        positive: The key of each query (R, D), unit norm.
        negatives: (K, D), unit norm.

    Returns:
        A scalar in float32.
    """
    query = query.float()
    nearest = (query @ negatives.float().T).amax(dim=1)
    return ((query * positive.float()).sum(dim=1) > nearest).float().mean()
