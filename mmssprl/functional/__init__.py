"""Pure functions of tensors: no registry, no configuration, no hidden state."""

from .health import (
    alignment,
    effective_rank,
    embedding_spread,
    mean_perplexity,
    measure_views,
    queue_top1,
)
from .info_nce import info_nce, prediction_loss
from .sinkhorn import sinkhorn, sinkhorn_jointly
from .swapped_prediction import cross_scale_loss, log_softmax, swapped_prediction_loss

__all__ = [
    "alignment",
    "cross_scale_loss",
    "effective_rank",
    "embedding_spread",
    "info_nce",
    "log_softmax",
    "mean_perplexity",
    "measure_views",
    "prediction_loss",
    "queue_top1",
    "sinkhorn",
    "sinkhorn_jointly",
    "swapped_prediction_loss",
]
