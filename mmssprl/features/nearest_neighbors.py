"""Labels from the nearest training images: no training at all."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import UserValueError

NUM_NEIGHBORS = 20
TEMPERATURE = 0.07
"""Both as in Wu et al., arXiv:1805.01978, who give 200 neighbours for 1.28 million images."""
_ROWS_AT_ONCE = 1024


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
        test_features: (M, C).
        num_neighbors: At most N of them are taken, >= 1.
        temperature: T > 0.

    Returns:
        (M, K) float32 in [0, 1], 0 where no neighbour's label is known.

    Raises:
        ValueError: Numbers out of range, or shapes that do not fit each other.
    """
    if num_neighbors < 1 or temperature <= 0:
        raise UserValueError(
            "num_neighbors must be at least 1 and temperature above 0, but got "
            f"{num_neighbors} and {temperature}."
        )
    shapes = [tuple(x.shape) for x in (train_features, train_labels, test_features)]
    if len(shapes[0]) != 2 or shapes[1][:1] != shapes[0][:1] or shapes[2][1:] != shapes[0][1:]:
        raise UserValueError(
            "features must be (N, C) and (M, C) and the labels (N, K), but got "
            f"{shapes[0]}, {shapes[2]} and {shapes[1]}."
        )
    train = F.normalize(train_features.float(), dim=1)
    known, present = (train_labels >= 0).float(), (train_labels == 1).float()
    parts = []
    for rows in F.normalize(test_features.float(), dim=1).split(_ROWS_AT_ONCE):
        cosines, nearest = (rows @ train.T).topk(min(num_neighbors, len(train)))
        # Less the greatest one, which cancels: exp(1 / 0.07) is 1.6 million.
        weights = ((cosines - cosines[:, :1]) / temperature).exp()  # (m, k)
        votes = torch.einsum("mn,mnk->mk", weights, present[nearest])
        asked = torch.einsum("mn,mnk->mk", weights, known[nearest])
        parts.append(torch.where(asked > 0, votes / asked.clamp(min=1e-12), 0.0))
    return torch.cat(parts)
