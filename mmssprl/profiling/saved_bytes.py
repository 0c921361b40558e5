"""Activation memory: what autograd keeps of a forward pass for the backward pass."""

from collections.abc import Callable
from itertools import chain
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

Result = TypeVar("Result")


def count_saved_bytes(module: nn.Module, forward: Callable[[], Result]) -> tuple[Result, int]:
    """Run a forward pass and count the bytes that it keeps for the backward pass.

    Each storage counts once and whole, however many tensors share it, because one of them keeps
    all of it. The module's own parameters and buffers do not count; copies that autocast makes of
    them do. Of a part under ``torch.utils.checkpoint`` the inputs count, not what the backward
    computes again.

    Args:
        module: Whose parameters and buffers are left out.
        forward: The forward pass.

    Returns:
        What ``forward`` returns, and the number of bytes.
    """
    own = {
        tensor.untyped_storage().data_ptr()
        for tensor in chain(module.parameters(), module.buffers())
    }
    # The storages themselves: a freed one's address could be another's.
    saved: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        result = forward()
    return result, sum(storage.nbytes() for storage in saved.values())
