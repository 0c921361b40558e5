"""Pure functions of tensors: no registry, no configuration, no hidden state."""

from .health import embedding_spread
from .prediction import prediction_loss
from .sinkhorn import sinkhorn, sinkhorn_jointly
from .swapped_prediction import cross_scale_loss, log_softmax, swapped_prediction_loss

__all__ = [
    "cross_scale_loss",
    "embedding_spread",
    "log_softmax",
    "prediction_loss",
    "sinkhorn",
    "sinkhorn_jointly",
    "swapped_prediction_loss",
]
