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
        A scalar in float32 (float64 for float64 predictions), from 0 where they agree to 8 where
        they are opposite. mmpretrain's is 4 less.
    """
    p, y = torch.stack(list(predictions)), torch.stack(list(targets)).detach()  # (2, B, D)
    dtype = torch.promote_types(p.dtype, torch.float32)
    cosines = F.cosine_similarity(p.to(dtype), y.flip(0).to(dtype), dim=-1)
    return (2 - 2 * cosines).sum(0).mean()
