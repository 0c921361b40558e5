"""The parts of a training step by name, for a clock that may listen.

A model opens a phase where a part begins: ``with phase(BACKBONE_FORWARD): ...``. While no clock
listens this is one shared null context: nothing is read, no device is waited for, and a compiled
graph does not break.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from torch import Tensor
from torch.autograd.graph import register_multi_grad_hook

COPY = "copy to the device"
AUGMENT = "augment"
BACKBONE_FORWARD = "backbone forward"
BACKBONE_BACKWARD = "backbone backward"
HEADS_FORWARD = "heads forward"
HEADS_BACKWARD = "heads backward"
SINKHORN = "Sinkhorn"
OPTIMIZER = "optimizer"
COMMUNICATION = "communication"


class Clock(Protocol):
    """Listens to the phases."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Book the time inside to ``name``; an inner phase takes its time from the outer one."""

    def go_on_as(self, name: str) -> None:
        """End the innermost open phase and book the rest of its context to ``name``."""


_SILENT = nullcontext()
_clock: Clock | None = None


def phase(name: str) -> AbstractContextManager[None]:
    """Return a context whose time belongs to the phase ``name``."""
    return _SILENT if _clock is None else _clock.phase(name)


def backward_goes_on_as(name: str, tensors: Sequence[Tensor]) -> None:
    """Let the rest of the backward pass be ``name`` once it reaches the last of ``tensors``.

    A backward pass has no lines of code that could open a phase. It goes through the forward's
    operations in reverse order: give tensors that were made after all of the part ``name``.
    """
    clock = _clock
    if clock is None:
        return
    trained = [tensor for tensor in tensors if tensor.requires_grad]
    if trained:
        register_multi_grad_hook(trained, lambda grads: clock.go_on_as(name))


@contextmanager
def timed_by(clock: Clock) -> Iterator[None]:
    """Let ``clock`` listen to the phases of this process."""
    global _clock
    _clock = clock
    try:
        yield
    finally:
        _clock = None
