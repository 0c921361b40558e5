"""mmdet's COCO metric without pycocotools' twelve lines on the console at each validation."""

import contextlib
import io
from typing import Any

from mmdet.evaluation import CocoMetric

from ..registry import METRICS


@METRICS.register_module()
class QuietCocoMetric(CocoMetric):
    """As ``CocoMetric``; the log has the numbers that pycocotools would print."""

    def compute_metrics(self, results: list) -> dict[str, Any]:
        """Compute the metrics in silence."""
        with contextlib.redirect_stdout(io.StringIO()):
            return super().compute_metrics(results)
