"""Recompute activations in the backward pass instead of storing them.

Legend: B images per rank, n chunks.
"""

import contextlib
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def recomputed_in_chunks(
    function: Callable[[nn.Module, Tensor], Tensor],
    network: nn.Module,
    inputs: Tensor,
    num_chunks: int,
    dim: int,
) -> Tensor:
    """Apply ``function(network, part)`` to n equal parts of the inputs, and join the results.

    The backward pass recomputes the activations of one part at a time. Values and gradients are the
    same as if the parts ran one after the other. Each part updates the running statistics of norm
    layers once. ``num_chunks`` must divide B, the size of dimension ``dim``.
    """
    parts = [
        checkpoint(
            function,
            network,
            part,
            use_reentrant=False,
            context_fn=lambda: (contextlib.nullcontext(), _SpareStatistics(network)),
        )
        for part in inputs.chunk(num_chunks, dim)
    ]
    return torch.cat(parts, dim)


class _SpareStatistics:
    """Context in which norm layers in training mode write running statistics to spare buffers.

    ``track_running_stats=False`` would also protect the statistics. But then a layer saves other
    tensors for its backward pass, which ``checkpoint`` refuses, and torch.compile compiles again.
    """

    def __init__(self, network: nn.Module) -> None:
        self._network = network

    def __enter__(self) -> None:
        # Layers in evaluation mode read their statistics and never write them.
        self._own = [
            (layer, name, buffer)
            for layer in self._network.modules()
            if layer.training
            for name, buffer in layer.named_buffers(recurse=False)
            if name in _STATISTICS
        ]
        for layer, name, buffer in self._own:
            setattr(layer, name, torch.zeros_like(buffer))

    def __exit__(self, *error: object) -> None:
        for layer, name, buffer in self._own:
            setattr(layer, name, buffer)
