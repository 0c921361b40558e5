"""Linear classifiers of frozen features, with the penalty of the best cross-validation.

Legend: N images, C features, K classes.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..console.live_line import at_work
from ..errors import UserValueError
from ..system.stopping import signals
from .logistic_regression import (
    BinaryRegression,
    LinearProbe,
    LogisticRegression,
    SoftmaxRegression,
)

STRENGTHS = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
"""Candidates for the penalty lambda, strongest first; features have unit variance."""

NUM_FOLDS = 5
_MIN_IMAGES = 10
_PATIENCE = 2
_TOLERANCE = 1e-5
"""Maximum gradient at the end of the last fit."""
_FOLDS_TOLERANCE = 1e-3
"""Maximum gradient at the end of fits that choose the penalty."""


def fit_linear_probe(
    features: Tensor,
    labels: Tensor,
    *,
    strengths: Sequence[float] = STRENGTHS,
    num_folds: int = NUM_FOLDS,
    seed: int = 0,
) -> LinearProbe:
    """Fit one L2-regularised logistic regression per class, on images that are all different.

    Loss, arguments and errors are as in ``fit_grouped_probe``.
    """
    groups = torch.arange(len(labels))
    return fit_grouped_probe(
        features, labels, groups, strengths=strengths, num_folds=num_folds, seed=seed
    )


@at_work("fitting a linear classifier")
def fit_grouped_probe(
    features: Tensor,
    labels: Tensor,
    groups: Tensor,
    *,
    strengths: Sequence[float] = STRENGTHS,
    num_folds: int = NUM_FOLDS,
    seed: int = 0,
) -> LinearProbe:
    """Fit one L2-regularised logistic regression per class.

    The loss of class k, over its n_k images with a known label and standardised x, is
    ``1/n_k sum_i BCE(w_k . x_i + b_k, y_ik) + lambda/2 ||w_k||^2``. It is convex, and full-batch
    L-BFGS reaches the minimum. lambda, the same for all classes, has the best mAP in a
    cross-validation.

    Differs from the paper's linear protocol (SGD with augmented images for 100 epochs).

    Args:
        features: (N, C) float, any scale, all finite.
        labels: (N, K), 1 present, 0 absent, -1 unknown (ignored).
        groups: int64 (N,) >= 0 on the CPU; rows of a group are in one fold.
        strengths: Candidates for lambda, each > 0. A single one needs no cross-validation.
        num_folds: Folds of the cross-validation, 2 to 10.
        seed: Seed of the folds.

    Raises:
        ValueError: Fewer than 10 labelled images, or features are not finite or all alike.
    """
    # Rows without a known label are ignored, even in mean and variance.
    rows = (labels >= 0).any(dim=1)
    folds = _draw_folds(groups[rows.cpu()], num_folds, seed)
    return _fit(BinaryRegression, features[rows].float(), labels[rows], folds, strengths)


@at_work("fitting a linear classifier")
def fit_softmax_probe(
    features: Tensor,
    shares: Tensor,
    groups: Tensor,
    *,
    strengths: Sequence[float] = STRENGTHS,
    num_folds: int = NUM_FOLDS,
    seed: int = 0,
) -> LinearProbe:
    """Fit one L2-regularised multinomial regression on shares s of classes.

    The loss is ``-1/N sum_i sum_k v_k s_ik log softmax(W x_i + b)_k + lambda/2 ||W||^2``, with v
    from ``class_weights`` and the lambda of the best mIoU.

    ``shares`` are (N, K) >= 0. The other arguments and errors are as in ``fit_grouped_probe``.
    """
    folds = _draw_folds(groups, num_folds, seed)
    return _fit(SoftmaxRegression, features.float(), shares, folds, strengths)


def _draw_folds(groups: Tensor, num_folds: int, seed: int) -> Tensor:
    """Return the fold (N,) of each row; rows of a group have the same."""
    present, groups = groups.unique(return_inverse=True)
    order = torch.randperm(len(present), generator=torch.Generator().manual_seed(seed))
    in_fold = torch.empty(len(present), dtype=torch.long)
    in_fold[order] = torch.arange(len(present)) % num_folds
    return in_fold[groups]


def _fit(
    kind: type[LogisticRegression],
    features: Tensor,
    labels: Tensor,
    in_fold: Tensor,
    strengths: Sequence[float],
) -> LinearProbe:
    """Fit all rows with the penalty that is the best on folds that are left out."""
    if len(features) < _MIN_IMAGES:
        raise UserValueError(
            f"a linear probe needs at least {_MIN_IMAGES} labelled images, "
            f"but got {len(features)}; use more training images."
        )
    everything = torch.arange(len(features), device=features.device)
    if len(strengths) == 1:
        [fitted] = kind(features, labels, [everything]).minimise(strengths[0], _TOLERANCE)
        return fitted

    candidates = sorted(strengths, reverse=True)
    held_out, of_folds = _cross_validate(
        kind, features, labels, in_fold.to(features.device), candidates
    )
    strength = max(held_out, key=held_out.__getitem__)  # the stronger one of equals

    regression = kind(features, labels, [everything])
    regression.begin_at(of_folds[strength])
    [fitted] = regression.minimise(strength, _TOLERANCE)
    return replace(fitted, held_out=held_out)


def _cross_validate(
    kind: type[LogisticRegression],
    features: Tensor,
    labels: Tensor,
    in_fold: Tensor,
    strengths: Sequence[float],
) -> tuple[dict[float, float], dict[float, list[LinearProbe]]]:
    """Return the cross-validated score, and the folds' fits, by penalty.

    It stops after ``_PATIENCE`` weaker penalties without a better score.
    """
    folds = in_fold.unique()
    regression = kind(features, labels, [(in_fold != fold).nonzero().flatten() for fold in folds])
    logits = torch.zeros(labels.shape, device=features.device)
    scores: dict[float, float] = {}
    fits: dict[float, list[LinearProbe]] = {}
    for strength in strengths:
        signals.progress()
        fits[strength] = regression.minimise(strength, _FOLDS_TOLERANCE)
        for fold, fitted in enumerate(fits[strength]):
            left_out = in_fold == fold
            logits[left_out] = fitted(features[left_out])

        scores[strength] = kind.score(logits, labels)
        # The last one of equals: several penalties may find the background alone.
        latest_first = [*scores.values()][::-1]
        if latest_first.index(max(latest_first)) >= _PATIENCE:
            break
    return scores, fits
