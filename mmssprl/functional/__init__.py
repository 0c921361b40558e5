"""Pure functions of tensors: no registry, no configuration, no hidden state."""

from .sinkhorn import sinkhorn, sinkhorn_jointly
from .swapped_prediction import cross_scale_loss, log_softmax, swapped_prediction_loss

__all__ = [
    "cross_scale_loss",
    "log_softmax",
    "sinkhorn",
    "sinkhorn_jointly",
    "swapped_prediction_loss",
]
