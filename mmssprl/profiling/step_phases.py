"""Which part of a training step belongs to which phase."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from mmengine.optim import OptimWrapper
from torch import Tensor
from torch.autograd.graph import register_multi_grad_hook

from ..models import sinkhorn_head
from .clock import REST, PhaseClock, replaced

COPY = "copy to the device"
AUGMENT = "augment"
BACKBONE_FORWARD = "backbone forward"
BACKBONE_BACKWARD = "backbone backward"
HEADS_FORWARD = "heads forward"
HEADS_BACKWARD = "heads backward"
SINKHORN = "Sinkhorn"
OPTIMIZER = "optimizer"
COMMUNICATION = "communication"
PHASES = (
    COPY,
    AUGMENT,
    BACKBONE_FORWARD,
    BACKBONE_BACKWARD,
    HEADS_FORWARD,
    HEADS_BACKWARD,
    SINKHORN,
    OPTIMIZER,
    COMMUNICATION,
    REST,
)
"""All phases of a step, in the order of the table."""

_COLLECTIVES = ("all_gather", "all_gather_into_tensor", "all_reduce")


@contextmanager
def phases_of(clock: PhaseClock, model: Any, optim_wrapper: OptimWrapper) -> Iterator[None]:
    """Make a model's training step tell the clock its phases; undone at the end.

    * copy: the preprocessor's ``cast_data``; augment: the rest of the preprocessor.
    * backbone: ``extract_feat``, which pools too. Its backward begins when the last gradient of
      the pooled features has arrived, and holds what checkpointed chunks compute again.
    * heads: the rest of ``loss`` (neck, scores, loss terms, queues), and the backward until then.
    * Sinkhorn: the head's ``sinkhorn_jointly``, without its collectives: those are communication.
    * optimizer: ``step`` and ``zero_grad``.

    The gradients' all-reduce runs inside the backward and is not split off here.

    Args:
        clock: Receives the phases.
        model: ``SSPRL`` without a DDP wrapper.
        optim_wrapper: Its optimizer.
    """

    def extract_feat(inputs: Sequence[Tensor]) -> list[Tensor]:
        features = extract(inputs)
        trained = [feature for feature in features if feature.requires_grad]
        if trained:
            register_multi_grad_hook(trained, lambda grads: clock.go_on_as(BACKBONE_BACKWARD))
        return features

    extract = clock.timed(model.extract_feat, BACKBONE_FORWARD)
    sinkhorn = _without_collectives(clock, sinkhorn_head.sinkhorn_jointly)
    with ExitStack() as stack:
        stack.enter_context(replaced(model, "extract_feat", extract_feat))
        for owner, name, function, phase in (
            (model.data_preprocessor, "forward", None, AUGMENT),
            (model.data_preprocessor, "cast_data", None, COPY),
            (model, "loss", None, HEADS_FORWARD),
            (sinkhorn_head, "sinkhorn_jointly", sinkhorn, SINKHORN),
            (optim_wrapper, "backward", None, HEADS_BACKWARD),
            (optim_wrapper, "step", None, OPTIMIZER),
            (optim_wrapper, "zero_grad", None, OPTIMIZER),
        ):
            timed = clock.timed(function or getattr(owner, name), phase)
            stack.enter_context(replaced(owner, name, timed))
        yield


def _without_collectives(clock: PhaseClock, function: Callable) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        # Only here: SyncBatchNorm's collectives stay with the backbone.
        with ExitStack() as stack:
            for name in _COLLECTIVES:
                timed = clock.timed(getattr(torch.distributed, name), COMMUNICATION)
                stack.enter_context(replaced(torch.distributed, name, timed))
            return function(*args, **kwargs)

    return call if torch.distributed.is_initialized() else function
