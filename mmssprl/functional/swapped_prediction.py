"""The two loss terms of SS-PRL as means over their (view, target) pairs.

Legend: V predicting views, A target views, N rows (patches x images), B images, K prototypes.

A uniform prediction reads ln K. The paper sums the two directions instead of averaging them, so
its Eq. 2 and Eq. 3 are exactly twice these values; LARC is invariant to such a constant factor.
"""

import torch
from torch import Tensor

from ..errors import UserValueError


def swapped_prediction_loss(scores: Tensor, codes: Tensor, *, temperature: float) -> Tensor:
    """Predict the code of each target view from every other view (Eq. 1 and 2).

    Args:
        scores: Cosine scores (V, N, K), V >= 2; gradient flows.
        codes: Targets (A, N, K), A <= V, rows summing to 1: ``codes[a]`` belongs to view a and
            is the target of every ``scores[v]``, v != a.
        temperature: tau > 0 of the softmax. Paper: 0.1.

    Returns:
        The cross-entropy, a mean over the A (V - 1) pairs and the N rows; at least float32.

    Raises:
        ValueError: Shapes that do not fit each other.
    """
    num_views, num_targets = scores.shape[0], codes.shape[0]
    if scores.shape[1:] != codes.shape[1:] or not 1 <= num_targets <= num_views or num_views < 2:
        raise UserValueError(
            "swapped_prediction_loss: scores must be (V, N, K) with V >= 2 and codes (A, N, K) "
            f"with A <= V, but got {tuple(scores.shape)} and {tuple(codes.shape)}."
        )
    log_probs = log_softmax(scores, temperature)
    # (A, N, K): for each target the sum over all views but its own.
    others = log_probs.sum(dim=0) - log_probs[:num_targets]
    return -(codes * others).sum(dim=-1).mean() / (num_views - 1)


def cross_scale_loss(
    scores: Tensor, codes: Tensor, *, temperature: float, all_pairs: bool
) -> Tensor:
    """Predict the image's codes from the correlation learner's output (Eq. 3).

    Args:
        scores: g_s(mu(P_s)) as cosines (V, B, K_0), one per pyramid; gradient flows.
        codes: Q_0 and Q'_0 (V, B, K_0), rows summing to 1.
        temperature: tau > 0 of the softmax. Paper: 0.1.
        all_pairs: False, as in the paper: each pyramid predicts its own image code. True, as in
            the released code: each pyramid predicts both image codes.

    Returns:
        The cross-entropy, a mean over the pairs and the B images.
    """
    log_probs = log_softmax(scores, temperature)
    if all_pairs:
        codes = codes.mean(dim=0, keepdim=True)
    return -(codes * log_probs).sum(dim=-1).mean()


def log_softmax(scores: Tensor, temperature: float) -> Tensor:
    """Log of Eq. 1, log softmax(scores / tau) over the last dimension, at least float32."""
    dtype = torch.promote_types(scores.dtype, torch.float32)
    return (scores.to(dtype) / temperature).log_softmax(dim=-1)
