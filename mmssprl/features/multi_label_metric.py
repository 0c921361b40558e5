"""Mean average precision as a metric of the runner."""

from collections.abc import Sequence
from typing import Any

import torch
from mmengine.evaluator import BaseMetric

from ..registry import METRICS
from .average_precision import mean_average_precision


@METRICS.register_module()
class MultiLabelMAP(BaseMetric):
    """``mean_average_precision`` of all images, as ``multi-label/mAP`` in percent.

    Needs ``pred_score`` and ``gt_score`` (K,) of each data sample, the latter as given by
    ``CocoMultiLabel`` and ``VocMultiLabel``; "difficult" labels (-1) are not counted.

    Args:
        kwargs: As mmengine's ``BaseMetric``.
    """

    default_prefix = "multi-label"

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        """Keep scores and labels of one batch."""
        self.results.extend((s["pred_score"].cpu(), s["gt_score"].cpu()) for s in data_samples)

    def compute_metrics(self, results: list) -> dict[str, float]:
        """Compute mAP over all ranks' images.

        Raises:
            ValueError: As ``mean_average_precision``.
        """
        scores, labels = (torch.stack(column) for column in zip(*results, strict=True))
        return {"mAP": 100 * mean_average_precision(scores, labels)[0]}
