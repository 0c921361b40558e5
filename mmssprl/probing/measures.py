"""Metrics of classifiers of images and pixels.

Legend: N images, K classes.
"""

from collections.abc import Iterable, Sequence
from math import isnan
from typing import Any

import numpy as np
import torch
from mmengine.evaluator import BaseMetric
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score
from torch import Tensor

from ..errors import UserValueError
from ..registry import METRICS


def mean_average_precision(scores: Tensor, labels: Tensor) -> tuple[float, NDArray[np.float64]]:
    """Return mAP over the classes with positives, and the average precision of each class.

    Args:
        scores: (N, K), higher is more confident; any finite range.
        labels: (N, K), 1 present, 0 absent, -1 ignored ("difficult" objects of VOC).

    Returns:
        The mean in [0, 1], and K values by scikit-learn, NaN for a class without a positive.
    """
    values = scores.detach().cpu().double().numpy()
    truth = labels.cpu().numpy()
    areas = np.full(truth.shape[1], np.nan)
    for k in range(truth.shape[1]):
        known = truth[:, k] >= 0
        if (truth[:, k] == 1).any():
            areas[k] = average_precision_score(truth[known, k], values[known, k])

    if np.isnan(areas).all():
        raise UserValueError(
            f"labels must have at least one positive, but got none in {len(truth)} images "
            f"of {truth.shape[1]} classes; use more images."
        )
    return float(np.nanmean(areas)), areas


def mean_iou(confusion: Tensor) -> tuple[float, Tensor]:
    """Return mIoU, and the IoU (K,) of each class, as mmseg does.

    ``confusion`` is (class, predicted class). A class in neither has NaN and is not averaged.
    """
    shared = confusion.diagonal()
    each = shared / (confusion.sum(dim=0) + confusion.sum(dim=1) - shared)
    return each.nanmean().item(), each


def by_class(classes: Sequence[str], values: Iterable[float]) -> dict[str, float | None]:
    """Return a score by class; None if it is NaN."""
    found = zip(classes, values, strict=True)
    return {name: None if isnan(value) else float(value) for name, value in found}


@METRICS.register_module()
class MultiLabelMAP(BaseMetric):
    """Mean average precision over the classes of all images, ``multi-label/mAP`` in percent.

    Data samples need ``pred_score`` and ``gt_score`` (K,), the latter as in ``CocoMultiLabel`` and
    ``VocMultiLabel``; "difficult" labels (-1) are ignored.
    """

    default_prefix = "multi-label"

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        """Keep scores and labels of one batch."""
        self.results.extend((s["pred_score"].cpu(), s["gt_score"].cpu()) for s in data_samples)

    def compute_metrics(self, results: list) -> dict[str, float]:
        """Compute mAP over all ranks' images."""
        scores, labels = (torch.stack(column) for column in zip(*results, strict=True))
        return {"mAP": 100 * mean_average_precision(scores, labels)[0]}
