"""Copies of the next batch to the device while the device still works on the last one."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves


class Prefetcher:
    """A data loader whose batches pass through ``copy`` on their way; the rest is the loader's.

    A batch is fetched and copied when it is asked for, not before: the host runs ahead of the
    device, so the device is still busy with the last step then. Nothing is held back, so that
    an error of the loader comes up at its own batch and a loop that stops early loses none.
    """

    def __init__(self, loader: Any, copy: Callable[[Any], Any]) -> None:
        self.loader = loader
        self._copy = copy

    def __iter__(self) -> Iterator[Any]:
        for batch in self.loader:
            yield self._copy(batch)

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # not there yet, as in a copy of this object
            raise AttributeError(name)
        return getattr(self.loader, name)


class SideStreamCopy:
    """Runs a copy to a CUDA device beside the kernels that are queued on the current stream.

    Only the kernels queued from then on wait for it, never the host; that needs pinned memory, and
    a ``move`` that copies with ``non_blocking=True``.
    """

    def __init__(self, move: Callable[[Any], Any], device: torch.device) -> None:
        self._move = move
        self._stream = torch.cuda.Stream(device)

    def __call__(self, batch: Any) -> Any:
        """Start the copy and make what follows on the current stream wait for it."""
        with torch.cuda.stream(self._stream):
            moved = self._move(batch)
        current = torch.cuda.current_stream(self._stream.device)
        current.wait_stream(self._stream)
        for leaf in tree_leaves(moved):
            if isinstance(leaf, Tensor) and leaf.is_cuda:
                # Else the memory could be given to a later copy while a step still reads it.
                leaf.record_stream(current)
        return moved
