"""The two loss terms of SS-PRL as means over their (view, target) pairs.

Legend: V predicting views, A target views, N rows (patches x images), B images, K prototypes.

A uniform prediction has the loss ln K. The paper sums the two directions, so its Eq. 2 and Eq. 3
are exactly twice these means. LARC is invariant to such a constant factor.
"""

import torch
from torch import Tensor

from ..errors import UserValueError


def swapped_prediction_loss(scores: Tensor, codes: Tensor, *, temperature: float) -> Tensor:
    """Predict the code of each target view from every other view (Eq. 1 and 2).

    Args:
        scores: Cosine scores (V, N, K), V >= 2; gradient flows.
        codes: Targets (A, N, K), A <= V; rows sum to 1. ``codes[a]`` is the code of view a and the
            target of every ``scores[v]`` with v != a.
        temperature: tau > 0 of the softmax. Paper: 0.1.

    Returns:
        Mean cross-entropy over the A (V - 1) pairs and the N rows; at least float32.

    Raises:
        ValueError: The shapes do not match.
    """
    num_views = len(scores)
    num_targets = len(codes)
    if scores.shape[1:] != codes.shape[1:] or not 1 <= num_targets <= num_views or num_views < 2:
        raise UserValueError(
            "swapped_prediction_loss: scores must be (V, N, K) with V >= 2 and codes (A, N, K) "
            f"with A <= V, but got {tuple(scores.shape)} and {tuple(codes.shape)}."
        )
    log_probs = log_softmax(scores, temperature)
    # (A, N, K): for each target, the sum over all views except its own.
    others = log_probs.sum(dim=0) - log_probs[:num_targets]
    return -(codes * others).sum(dim=-1).mean() / (num_views - 1)


def cross_scale_loss(
    scores: Tensor, codes: Tensor, *, temperature: float, all_pairs: bool
) -> Tensor:
    """Predict the image's codes from the correlation learner's output (Eq. 3).

    Args:
        scores: g_s(mu(P_s)) as cosines (V, B, K_0), one per pyramid; gradient flows.
        codes: Q_0 and Q'_0 (V, B, K_0); rows sum to 1.
        temperature: tau > 0 of the softmax. Paper: 0.1.
        all_pairs: Whether each pyramid predicts both image codes, as in the released code. If not,
            it predicts its own image code, as in the paper.

    Returns:
        Mean cross-entropy over the pairs and the B images.
    """
    log_probs = log_softmax(scores, temperature)
    if all_pairs:
        codes = codes.mean(dim=0, keepdim=True)
    return -(codes * log_probs).sum(dim=-1).mean()


def log_softmax(scores: Tensor, temperature: float) -> Tensor:
    """Compute the log of Eq. 1, log softmax(scores / tau) over the last dim, at least float32."""
    dtype = torch.promote_types(scores.dtype, torch.float32)
    return (scores.to(dtype) / temperature).log_softmax(dim=-1)
