"""Logistic regression on frozen features.

Legend: N images, C features, K classes, F parts of the images that are fitted at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from ..console.progress import at_work
from ..errors import UserValueError
from ..system.stopping import signals
from .measures import mean_average_precision, mean_iou

STRENGTHS = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
"""Candidates for the penalty lambda, strongest first; features have unit variance."""

NUM_FOLDS = 5
_MIN_IMAGES = 10
_MAX_ITERS, _MAX_MORE_ITERS = 300, 100
"""For a fit that starts from zero, and for one that starts from the folds' fits."""
_NO_VARIANCE = 1e-5
_LEAST_STD = 1e-30  # inverses of smaller ones overflow in float32
_PATIENCE = 2
_TOLERANCE, _FOLDS_TOLERANCE = 1e-5, 1e-3
"""Maximum gradient at the end of the last fit, and of fits that choose the penalty."""


def class_weights(shares: Tensor) -> Tensor:
    """Return inverse roots (K,) of the class frequencies of (N, K), with mean 1 over the rows."""
    total = shares.sum(dim=0)
    roots = torch.where(total > 0, total.rsqrt(), 0.0)
    return roots * total.sum() / (roots @ total)


@dataclass(frozen=True)
class LinearProbe:
    """A fitted linear classifier."""

    weight: Tensor  # (K, C), for standardised features
    bias: Tensor  # (K,)
    mean: Tensor  # (C,)
    scale: Tensor  # (C,), inverse deviation; 0 for a constant feature
    strength: float  # penalty lambda
    held_out: dict[float, float] = field(default_factory=dict)  # mAP or mIoU by penalty

    def __call__(self, features: Tensor) -> Tensor:
        """Return logits (N, K) of raw features (N, C)."""
        return F.linear((features - self.mean) * self.scale, self.weight, self.bias)


@at_work("fitting a linear classifier")
def fit_linear_probe(
    features: Tensor,
    labels: Tensor,
    *,
    strengths: Sequence[float] = STRENGTHS,
    num_folds: int = NUM_FOLDS,
    seed: int = 0,
    softmax: bool = False,
    groups: Tensor | None = None,
) -> LinearProbe:
    """Fit one L2-regularised logistic regression per class.

    The loss of class k, over its n_k images with a known label and standardised x, is
    ``1/n_k sum_i BCE(w_k . x_i + b_k, y_ik) + lambda/2 ||w_k||^2``. It is convex, and full-batch
    L-BFGS reaches the minimum. lambda, the same for all classes, has the best mAP in a
    cross-validation.

    With ``softmax`` it is one multinomial regression on shares s of classes:
    ``-1/N sum_i sum_k v_k s_ik log softmax(W x_i + b)_k + lambda/2 ||W||^2``, with v from
    ``class_weights`` and the lambda of the best mIoU.

    Differs from the paper's linear protocol (SGD with augmented images for 100 epochs).

    Args:
        features: (N, C) float, any scale, all finite.
        labels: (N, K), 1 present, 0 absent, -1 unknown (ignored); with ``softmax`` shares.
        strengths: Candidates for lambda, each > 0. A single one needs no cross-validation.
        num_folds: Folds of the cross-validation, 2 to 10.
        seed: Seed of the folds.
        softmax: Fit one multinomial regression.
        groups: int64 (N,) >= 0; rows of a group are in one fold. None: each row is a group.

    Raises:
        ValueError: Fewer than 10 labelled images, or features are not finite or all alike.
    """
    # Rows without a known label are ignored, even in mean and variance.
    rows = (labels >= 0).any(dim=1)
    groups = torch.arange(len(rows)) if groups is None else groups
    features, labels, groups = features[rows].float(), labels[rows], groups[rows.cpu()]
    if len(features) < _MIN_IMAGES:
        raise UserValueError(
            f"a linear probe needs at least {_MIN_IMAGES} labelled images, "
            f"but got {len(features)}; use more training images."
        )
    held_out: dict[float, float] = {}
    of_folds: dict[float, list[LinearProbe]] = {}
    strength = strengths[0]
    if len(strengths) > 1:
        candidates = sorted(strengths, reverse=True)
        in_fold = _folds(groups, num_folds, seed).to(features.device)
        held_out, of_folds = _cross_validate(features, labels, in_fold, candidates, softmax)
        strength = max(held_out, key=held_out.__getitem__)  # the stronger one of equals
    fit = _Fit(features, labels, [torch.arange(len(features), device=features.device)], softmax)
    if softmax and of_folds:  # from zero it would take hundreds of iterations
        fit.begin_at(of_folds[strength])
    (fitted,) = fit.minimise(strength, _TOLERANCE)
    return replace(fitted, held_out=held_out)


def _principal_axes(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return variances, ascending, and principal axes of standardised features (N, C)."""
    try:
        if x.isfinite().all():
            return tuple(torch.linalg.eigh(x.T @ x / len(x)))
    except torch.linalg.LinAlgError:
        pass
    raise UserValueError(
        "a linear fit needs finite features that differ between images, but those of the network "
        "do not; it has diverged or collapsed. Use weights of an earlier epoch, or train with a "
        "lower lr."
    )


def _folds(groups: Tensor, num_folds: int, seed: int) -> Tensor:
    present, groups = groups.unique(return_inverse=True)
    order = torch.randperm(len(present), generator=torch.Generator().manual_seed(seed))
    in_fold = torch.empty(len(present), dtype=torch.long)
    in_fold[order] = torch.arange(len(present)) % num_folds
    return in_fold[groups]


def _cross_validate(
    features: Tensor, labels: Tensor, in_fold: Tensor, strengths: Sequence[float], softmax: bool
) -> tuple[dict[float, float], dict[float, list[LinearProbe]]]:
    """Return the cross-validated mAP (or mIoU), and the folds' fits, by penalty.

    It stops after ``_PATIENCE`` weaker penalties without a better score.
    """
    parts = [(in_fold != fold).nonzero().flatten() for fold in in_fold.unique()]
    fit = _Fit(features, labels, parts, softmax)
    logits = torch.zeros(labels.shape, device=features.device)
    scores: dict[float, float] = {}
    fits: dict[float, list[LinearProbe]] = {}
    for strength in strengths:
        signals.progress()
        fits[strength] = fit.minimise(strength, _FOLDS_TOLERANCE)
        for fold, fitted in enumerate(fits[strength]):
            logits[in_fold == fold] = fitted(features[in_fold == fold])
        if softmax:
            found = F.one_hot(logits.argmax(dim=1), labels.shape[1])
            scores[strength], _ = mean_iou(labels.double().T @ found.double())
        else:
            scores[strength], _ = mean_average_precision(logits, labels)
        # The last one of equals: mIoU may be that of the background for several penalties.
        if [*scores.values()][::-1].index(max(scores.values())) >= _PATIENCE:
            break
    return scores, fits


class _Fit:
    """Logistic regressions of all classes on each of F parts of the images.

    L-BFGS optimises u with w = U (d u). U are the principal axes of x, and d scales each by the
    curvature of the loss along it, about ``p (1 - p) variance + lambda`` with p the share of
    positives. This takes about ten iterations per penalty; w itself can take thousands.
    """

    def __init__(
        self, features: Tensor, labels: Tensor, parts: Sequence[Tensor], softmax: bool
    ) -> None:
        self._softmax = softmax
        if softmax:
            labels = labels * class_weights(labels)
        most = max(len(rows) for rows in parts)  # M
        # M images vary along at most M axes; weights on the others stay 0.
        rank = min(most, features.shape[1])
        num, num_classes = len(parts), labels.shape[1]
        self._x = features.new_zeros(num, most, rank)  # shorter parts end in zero rows
        self._target = features.new_zeros(num, most, num_classes)
        self._weights = features.new_zeros(num, most, num_classes)
        self._axes = features.new_zeros(num, features.shape[1], rank)
        self._mean = features.new_zeros(num, features.shape[1])
        self._scale = torch.zeros_like(self._mean)
        self._curvature = features.new_zeros(num, num_classes, rank)
        for i, rows in enumerate(parts):
            std, self._mean[i] = torch.std_mean(features[rows], dim=0, correction=0)
            varies = std > (_NO_VARIANCE * self._mean[i].abs()).clamp(min=_LEAST_STD)
            self._scale[i] = torch.where(varies, 1 / std, 0.0)
            x = (features[rows] - self._mean[i]) * self._scale[i]
            variances, axes = _principal_axes(x)
            self._axes[i] = axes[:, -rank:]
            self._x[i, : len(rows)] = x @ self._axes[i]
            known = (labels[rows] >= 0).to(x)
            target, weights = labels[rows].clamp(min=0).to(x), known / known.sum(0).clamp(min=1)
            self._target[i, : len(rows)], self._weights[i, : len(rows)] = target, weights
            share = (target * weights).sum(dim=0)
            self._curvature[i] = (share * (1 - share))[:, None] * variances[-rank:].clamp(min=0)
        self._along_axes = torch.zeros_like(self._curvature)
        self._bias = features.new_zeros(num, num_classes)
        self._max_iters = _MAX_ITERS

    def begin_at(self, fits: Sequence[LinearProbe]) -> None:
        """Start at the mean of other fits of the same features."""
        weight = torch.stack([fit.weight * fit.scale for fit in fits]).mean(dim=0)
        bias = torch.stack([fit.bias - fit.weight @ (fit.scale * fit.mean) for fit in fits])
        self._bias = bias.mean(dim=0) + self._mean @ weight.mT
        of_standardised = torch.where(self._scale > 0, 1 / self._scale, 0.0)[:, None] * weight
        self._along_axes = of_standardised @ self._axes
        self._max_iters = _MAX_MORE_ITERS

    def minimise(self, strength: float, tolerance: float) -> list[LinearProbe]:
        """Run L-BFGS on all classes and parts at once, and return a classifier per part.

        It starts where the previous call ended.
        """
        d = (self._curvature + strength).rsqrt()
        u = (self._along_axes / d).requires_grad_()
        bias = self._bias.clone().requires_grad_()
        optimizer = torch.optim.LBFGS(
            [u, bias],
            max_iter=self._max_iters,
            history_size=20,
            tolerance_grad=tolerance,
            tolerance_change=tolerance / 100,
            line_search_fn="strong_wolfe",
        )

        def closure() -> Tensor:
            optimizer.zero_grad()
            weight = d * u
            logits = torch.baddbmm(bias[:, None], self._x, weight.mT)
            if self._softmax:
                loss = -(logits.log_softmax(dim=-1) * self._target * self._weights).sum()
            else:
                loss = F.binary_cross_entropy_with_logits(
                    logits, self._target, self._weights, reduction="sum"
                )
            loss = loss + 0.5 * strength * weight.square().sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        self._along_axes, self._bias = (d * u).detach(), bias.detach()
        weights = self._along_axes @ self._axes.mT
        fitted = zip(weights, self._bias, self._mean, self._scale, strict=True)
        return [LinearProbe(*values, strength) for values in fitted]
