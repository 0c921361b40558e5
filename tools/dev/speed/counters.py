"""Dispatch modes that count what a step does; they see every operator, also of hooks and backward.

On the CPU the backward pass runs in the thread that asks for it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mmssprl.functional import _device
from mmssprl.functional.phases import SINKHORN
from mmssprl.models import pyramid_preprocessor


class PhaseCounter(TorchDispatchMode):
    """Hands every operator to ``see``; a clock of ``functional.phases``."""

    def __init__(self) -> None:
        super().__init__()
        self.is_sinkhorn = False
        self._found: list[Any] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence = (), kwargs: dict | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.see(func, func.overloadpacket.__name__, args, result)
        return result

    def see(self, func: Any, name: str, args: Sequence, result: Any) -> None:
        """Look at an operator that has just run."""
        raise NotImplementedError

    def take(self) -> list[Any]:
        """Return what was found since the last call."""
        found, self._found = self._found, []
        return found

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Take note of the assignment, with all that happens inside."""
        before, self.is_sinkhorn = self.is_sinkhorn, self.is_sinkhorn or name == SINKHORN
        yield
        self.is_sinkhorn = before

    def go_on_as(self, name: str) -> None:
        """Go on with the part: the backward pass is not divided."""

    @contextmanager
    def leaving_out_the_host(self) -> Iterator[None]:
        """Leave out what draws and plans the augmentation, on tensors of the CPU by intent."""
        with ExitStack() as stack:
            for module, name in ((pyramid_preprocessor, "draw_photometric"), (_device, "plan")):
                unseen = partial(self._unseen, getattr(module, name))
                stack.enter_context(mock.patch.object(module, name, unseen))
            yield

    def _unseen(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        before, self._found = self._found, []
        result = function(*args, **kwargs)
        self._found = before
        return result


class SyncCounter(PhaseCounter):
    """Lists what makes the host wait for a device, on the CPU too.

    Not seen on the CPU: ``to(device)`` from a device to the host, which is no copy here.
    """

    def see(self, func: Any, name: str, args: Sequence, result: Any) -> None:
        """List an operator that reads values."""
        if name in _READS or (name in _INDEXES and _has_mask(args[1])):
            self._found.append(name)

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Also see the methods of tensors that read past the dispatcher."""
        with ExitStack() as stack:
            for name in ("tolist", "numpy", "cpu"):
                stack.enter_context(self._counted(name))
            yield

    def _counted(self, name: str) -> Any:
        method = getattr(Tensor, name)

        def called(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            self._found.append(name)
            return method(tensor, *args, **kwargs)

        return mock.patch.object(Tensor, name, called)


_READS = {
    *("_linalg_check_errors", "_local_scalar_dense", "equal", "is_nonzero", "nonzero"),
    *("_unique", "_unique2", "unique_consecutive", "unique_dim", "unique_dim_consecutive"),
    "masked_select",
}
_INDEXES = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}


def _has_mask(indices: Sequence[Tensor | None]) -> bool:
    return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices)


class Collective(NamedTuple):
    """One collective: its operator, what this rank sends, and whether it is the assignment's."""

    name: str
    num_bytes: int
    is_sinkhorn: bool


class CollectiveCounter(PhaseCounter):
    """Lists the collectives, DDP's from within the backward pass among them."""

    def see(self, func: Any, name: str, args: Sequence, result: Any) -> None:
        """List an operator that sends."""
        if func.namespace in ("c10d", "_c10d_functional"):
            # An all-gather's first argument is its output.
            sent = args[1] if "gather" in name and func.namespace == "c10d" else args[0]
            tensors = [leaf for leaf in tree_leaves(sent) if isinstance(leaf, Tensor)]
            num_bytes = sum(tensor.nbytes for tensor in tensors)
            self._found.append(Collective(name, num_bytes, self.is_sinkhorn))
