"""Pure functions of tensors: no registry, no configuration, no hidden state."""

from .health import embedding_spread, queue_top1
from .info_nce import info_nce
from .prediction import prediction_loss
from .sinkhorn import sinkhorn, sinkhorn_jointly
from .swapped_prediction import cross_scale_loss, log_softmax, swapped_prediction_loss

__all__ = [
    "cross_scale_loss",
    "embedding_spread",
    "info_nce",
    "log_softmax",
    "prediction_loss",
    "queue_top1",
    "sinkhorn",
    "sinkhorn_jointly",
    "swapped_prediction_loss",
]
