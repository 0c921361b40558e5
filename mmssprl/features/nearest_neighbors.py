"""The nearest features by their cosine, and labels from them: no training at all.

Legend: Q queries, N images, C features, k neighbours of each query, K classes.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

NUM_NEIGHBORS = 20
TEMPERATURE = 0.07
"""Both as in Wu et al., arXiv:1805.01978, who give 200 neighbours for 1.28 million images."""
_QUERIES_AT_A_TIME = 512


def nearest(
    queries: Tensor, features: Tensor, num: int, *, excluded: np.ndarray | None = None
) -> tuple[Tensor, Tensor]:
    """Find the features of the greatest cosine: indices int64 (Q, k) and cosines (Q, k).

    The greatest comes first; k is at most N, or N - 1 with ``excluded``. Rounding may bring a
    cosine above 1.

    Args:
        queries: (Q, C), of any norm.
        features: (N, C), of any norm.
        num: k, at most so many neighbours.
        excluded: int64 (Q,), for each query the feature that does not count, or -1.
    """
    among = F.normalize(features.float(), dim=1)
    sought = F.normalize(queries.float(), dim=1)
    num = min(num, len(among) - (excluded is not None))
    indices, cosines = [], []
    for start in range(0, len(sought), _QUERIES_AT_A_TIME):
        block = sought[start : start + _QUERIES_AT_A_TIME] @ among.T  # (block, N)
        if excluded is not None:
            own = torch.from_numpy(excluded[start : start + len(block)])
            rows = torch.arange(len(block))[own >= 0]
            block[rows, own[own >= 0]] = -torch.inf
        found = block.topk(num, dim=1)
        indices.append(found.indices)
        cosines.append(found.values)
    return torch.cat(indices), torch.cat(cosines)


def knn_scores(
    train_features: Tensor,
    train_labels: Tensor,
    test_features: Tensor,
    *,
    num_neighbors: int = NUM_NEIGHBORS,
    temperature: float = TEMPERATURE,
) -> Tensor:
    """Score every class by the nearest training images, each with the weight exp(cosine / T).

    Weighted k nearest neighbours as in arXiv:1805.01978, section 3.4, for several labels an image:
    the score of class k is the weighted share of the neighbours that show it, over those whose
    label is known.

    Args:
        train_features: (N, C) float, any scale.
        train_labels: (N, K), 1 present, 0 absent, -1 unknown.
        test_features: (Q, C).
        num_neighbors: At most N of them are taken, >= 1.
        temperature: T > 0.

    Returns:
        (Q, K) float32 in [0, 1], 0 where no neighbour's label is known.
    """
    known, present = (train_labels >= 0).float(), (train_labels == 1).float()
    indices, cosines = nearest(test_features, train_features, num_neighbors)
    # Less the greatest one, which cancels: exp(1 / 0.07) is 1.6 million.
    weights = ((cosines - cosines[:, :1]) / temperature).exp()  # (Q, k)
    votes = torch.einsum("qn,qnk->qk", weights, present[indices])
    asked = torch.einsum("qn,qnk->qk", weights, known[indices])
    return torch.where(asked > 0, votes / asked.clamp(min=1e-12), 0.0)
