"""Logistic regressions by L-BFGS, on several parts of the images at once.

Legend: N images, C features, K classes, F parts of the images, M images of the largest part.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import UserValueError
from .measures import mean_average_precision, mean_iou

_MAX_ITERS = 300
_MAX_MORE_ITERS = 100  # of a fit that starts from other fits
_NO_VARIANCE = 1e-5
_LEAST_STD = 1e-30  # inverses of smaller ones overflow in float32


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


class LogisticRegression(ABC):
    """Regressions of all classes on each of F parts of the images.

    L-BFGS optimises u with w = U (d u). U are the principal axes of x, and d scales each by the
    curvature of the loss along it, about ``p (1 - p) variance + lambda`` with p the share of
    positives. This takes about ten iterations per penalty; w itself can take thousands.

    Args:
        features: (N, C), finite.
        labels: (N, K), what to predict; values below 0 are ignored.
        parts: Indices of the images of each part.

    Raises:
        ValueError: Features are not finite or all alike.
    """

    def __init__(self, features: Tensor, labels: Tensor, parts: Sequence[Tensor]) -> None:
        num = len(parts)
        num_features = features.shape[1]
        num_classes = labels.shape[1]
        most = max(len(rows) for rows in parts)  # M
        # M images vary along at most M axes; weights on the others stay 0.
        rank = min(most, num_features)

        self._x = features.new_zeros(num, most, rank)  # shorter parts end in zero rows
        self._target = features.new_zeros(num, most, num_classes)
        self._weights = torch.zeros_like(self._target)
        self._mean = features.new_zeros(num, num_features)
        self._scale = torch.zeros_like(self._mean)
        self._axes = features.new_zeros(num, num_features, rank)
        self._curvature = features.new_zeros(num, num_classes, rank)
        for part, rows in enumerate(parts):
            variances = self._standardise(part, features[rows])
            self._weigh(part, labels[rows], variances)

        self._along_axes = torch.zeros_like(self._curvature)
        self._bias = features.new_zeros(num, num_classes)
        self._max_iters = _MAX_ITERS

    def _standardise(self, part: int, features: Tensor) -> Tensor:
        """Turn the features of a part to their principal axes; return the variances of these."""
        std, mean = torch.std_mean(features, dim=0, correction=0)
        varies = std > (_NO_VARIANCE * mean.abs()).clamp(min=_LEAST_STD)
        scale = torch.where(varies, 1 / std, 0.0)
        x = (features - mean) * scale
        variances, axes = _principal_axes(x)

        rank = self._axes.shape[2]
        self._mean[part] = mean
        self._scale[part] = scale
        self._axes[part] = axes[:, -rank:]
        self._x[part, : len(x)] = x @ self._axes[part]
        return variances[-rank:].clamp(min=0)

    def _weigh(self, part: int, labels: Tensor, variances: Tensor) -> None:
        """Set targets and weights of a part, and the curvature of its loss along the axes."""
        target = labels.clamp(min=0).to(self._x)
        known = (labels >= 0).to(self._x)
        weights = known / known.sum(0).clamp(min=1)
        share = (target * weights).sum(dim=0).clamp(max=1)  # rounding must not make p (1 - p) < 0

        self._target[part, : len(target)] = target
        self._weights[part, : len(target)] = weights
        self._curvature[part] = (share * (1 - share))[:, None] * variances

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
            loss = self._loss(logits) + 0.5 * strength * weight.square().sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        self._along_axes = (d * u).detach()
        self._bias = bias.detach()

        weights = self._along_axes @ self._axes.mT
        fitted = zip(weights, self._bias, self._mean, self._scale, strict=True)
        return [LinearProbe(*values, strength) for values in fitted]

    @abstractmethod
    def _loss(self, logits: Tensor) -> Tensor:
        """Return the loss of logits (F, M, K), summed over all parts, without the penalty."""

    @abstractmethod
    def begin_at(self, fits: Sequence[LinearProbe]) -> None:
        """Start at the fits of the folds, where this takes fewer iterations than from zero."""

    @staticmethod
    @abstractmethod
    def score(logits: Tensor, labels: Tensor) -> float:
        """Return the score in [0, 1] that a penalty is chosen by."""


class BinaryRegression(LogisticRegression):
    """One regression per class, on labels 1, 0 and -1 for unknown; its score is the mAP."""

    def _loss(self, logits: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            logits, self._target, self._weights, reduction="sum"
        )

    def begin_at(self, fits: Sequence[LinearProbe]) -> None:
        """Start from zero, which is near enough."""

    @staticmethod
    def score(logits: Tensor, labels: Tensor) -> float:
        """Return the mAP."""
        return mean_average_precision(logits, labels)[0]


class SoftmaxRegression(LogisticRegression):
    """One multinomial regression on shares of classes, weighted by class; its score is the mIoU."""

    def __init__(self, features: Tensor, shares: Tensor, parts: Sequence[Tensor]) -> None:
        super().__init__(features, shares * class_weights(shares), parts)

    def _loss(self, logits: Tensor) -> Tensor:
        return -(logits.log_softmax(dim=-1) * self._target * self._weights).sum()

    def begin_at(self, fits: Sequence[LinearProbe]) -> None:
        """Start at the mean of the fits: from zero it would take hundreds of iterations."""
        weight = torch.stack([fit.weight * fit.scale for fit in fits]).mean(dim=0)
        bias = torch.stack([fit.bias - fit.weight @ (fit.scale * fit.mean) for fit in fits])
        self._bias = bias.mean(dim=0) + self._mean @ weight.mT
        of_standardised = torch.where(self._scale > 0, 1 / self._scale, 0.0)[:, None] * weight
        self._along_axes = of_standardised @ self._axes
        self._max_iters = _MAX_MORE_ITERS

    @staticmethod
    def score(logits: Tensor, labels: Tensor) -> float:
        """Return the mIoU of the most likely classes."""
        predicted = F.one_hot(logits.argmax(dim=1), labels.shape[1])
        return mean_iou(labels.double().T @ predicted.double())[0]


def class_weights(shares: Tensor) -> Tensor:
    """Return inverse roots (K,) of the class frequencies of (N, K), with mean 1 over the rows."""
    total = shares.sum(dim=0)
    roots = torch.where(total > 0, total.rsqrt(), 0.0)
    return roots * total.sum() / (roots @ total)


def _principal_axes(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return variances, ascending, and principal axes of standardised features (N, C)."""
    try:
        if x.isfinite().all():
            return tuple(torch.linalg.eigh(x.T @ x / len(x)))
    except torch.linalg.LinAlgError:
        pass
    raise UserValueError(
        "a linear fit needs finite features that differ between images, but got none: the network "
        "has diverged or collapsed. Use weights of an earlier epoch, or train with a lower lr."
    )
