"""Metrics of classifiers of images and pixels.

Legend: N images, K classes, H, W height and width of an image.
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

from ..datasets.labels.label_maps import IGNORED
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


def count_pixels(predicted: Tensor, labels: NDArray[Any], num_classes: int) -> Tensor:
    """Return the confusion matrix (class, predicted class) of labelled pixels, float64 (K, K).

    ``predicted`` and ``labels`` are class indices (H, W), the latter also ``IGNORED``.
    """
    pairs = labels.astype(np.int64) * num_classes + predicted.cpu().numpy()
    is_labelled = labels != IGNORED
    counts = np.bincount(pairs[is_labelled], minlength=num_classes**2)
    return torch.from_numpy(counts).double().view(num_classes, -1)


def mean_iou(confusion: Tensor) -> tuple[float, Tensor]:
    """Return mIoU, and the IoU (K,) of each class, as mmseg does.

    ``confusion`` is (class, predicted class). A class in neither has NaN and is not averaged.
    """
    each, _ = shares_of_pixels(pixels_by_class(confusion))
    return each.nanmean().item(), each


def pixels_by_class(confusion: Tensor) -> Tensor:
    """Return the right, labelled and predicted pixels (3, K) of (class, predicted class)."""
    return torch.stack([confusion.diagonal(), confusion.sum(dim=1), confusion.sum(dim=0)])


def shares_of_pixels(pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Return IoU and recall (K,) of ``pixels_by_class``; NaN for a class in neither."""
    right, labelled, predicted = pixels
    return right / (labelled + predicted - right), right / labelled


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


@METRICS.register_module()
class PixelIoU(BaseMetric):
    """``mIoU`` over the classes that labels or predictions show, ``mAcc`` and ``aAcc``, in percent.

    Data samples are mmseg's. Differs from its ``IoUMetric``: that counts in float32, which ends at
    16,777,216 pixels of a class in an image. Photographs of 20 megapixels and more have more.
    """

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        """Keep pixels of each image by class (3, K): right, labelled and predicted ones."""
        num_classes = len(self.dataset_meta["classes"])
        for sample in data_samples:
            labels = sample["gt_sem_seg"]["data"][0].cpu().numpy()
            others = labels[(labels >= num_classes) & (labels != IGNORED)]
            if others.size:
                raise UserValueError(
                    f"label images must have classes below {num_classes}, or {IGNORED}, but that "
                    f"of {sample['img_path']} has {others.max()}; correct it."
                )
            pixels = count_pixels(sample["pred_sem_seg"]["data"][0], labels, num_classes)
            self.results.append(pixels_by_class(pixels))

    def compute_metrics(self, results: list) -> dict[str, float]:
        """Compute the scores over all ranks' images."""
        pixels = torch.stack(results).sum(dim=0)
        right, labelled, _ = pixels
        iou, recall = shares_of_pixels(pixels)
        return {
            "mIoU": 100 * iou.nanmean().item(),
            "mAcc": 100 * recall.nanmean().item(),
            "aAcc": 100 * (right.sum() / labelled.sum()).item(),
        }
