"""Activation memory: what autograd keeps of a forward pass for the backward pass."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks


@contextmanager
def saved_bytes(module: nn.Module) -> Iterator[list[int]]:
    """Count the bytes that the module's forward passes inside keep for their backward passes.

    Each storage counts once and whole, however many tensors share it, because one of them keeps
    all of it. The module's own parameters and buffers do not count; copies that autocast makes of
    them do. Of a part under ``torch.utils.checkpoint`` the inputs count, not what the backward
    computes again.

    Yields:
        A list that receives one number at the end of each forward pass.
    """
    own = {t.untyped_storage()._cdata for t in chain(module.parameters(), module.buffers())}
    counts: list[int] = []
    # The storages themselves: a freed one's address could be another's. Addresses of the storage
    # and not of its memory, which fake tensors have none of.
    saved: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            saved[storage._cdata] = storage
        return tensor

    def finish(*_: object) -> None:
        hooks.__exit__()
        counts.append(sum(storage.nbytes() for storage in saved.values()))
        saved.clear()  # or the backward could free nothing

    hooks = saved_tensors_hooks(pack, lambda tensor: tensor)
    begin = module.register_forward_pre_hook(lambda *_: hooks.__enter__())
    end = module.register_forward_hook(finish, always_call=True)
    try:
        yield counts
    finally:
        begin.remove()
        end.remove()
