"""The loss of BYOL: a prediction of one view's embedding from the other view.

Legend: B images per rank, D embedding size.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def prediction_loss(predictions: Sequence[Tensor], targets: Sequence[Tensor]) -> Tensor:
    """Compute L = mean_b [(2 - 2 cos(p_0, y_1)) + (2 - 2 cos(p_1, y_0))].

    Args:
        predictions: p_0 and p_1 (B, D), of any norm.
        targets: y_0 and y_1, as ``predictions``; no gradient flows into them.

    Returns:
        A scalar in float32, from 0 where they agree to 8 where they are opposite. mmpretrain's is
        4 less.
    """
    # (2, B, D): each prediction beside the other view's target.
    p, y = torch.stack(list(predictions)).float(), torch.stack(list(targets)).detach().float()
    return (2 - 2 * F.cosine_similarity(p, y.flip(0), dim=-1)).sum(0).mean()
