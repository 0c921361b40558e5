"""Activations that are computed again in the backward pass instead of being kept.

Legend: B images per rank, n chunks.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def recomputed_in_chunks(
    function: Callable[[nn.Module, Tensor], Any],
    network: nn.Module,
    inputs: Tensor,
    num_chunks: int,
    dim: int,
) -> Any:
    """Apply ``function(network, part)`` to n equal parts of the inputs, and join the results,
    tensors or tuples of them.

    The backward pass computes the activations of one part at a time. Values and gradients are those
    of the parts run one after the other; running statistics of norm layers move once per part.
    ``num_chunks`` must divide B, the size of dimension ``dim``.
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
    if isinstance(parts[0], Tensor):
        return torch.cat(parts, dim)
    return tuple(torch.cat(each, dim) for each in zip(*parts, strict=True))


class _SpareStatistics:
    """Lets norm layers in training mode write their running statistics elsewhere while entered.

    ``track_running_stats=False`` would leave them alone, too, but then a layer saves other tensors
    for its backward pass than it did before, which the checkpoint refuses, and a compiled network
    would be compiled once more.
    """

    def __init__(self, network: nn.Module) -> None:
        self._network = network

    def __enter__(self) -> None:
        # In evaluation mode the values are read, and nothing is written.
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
