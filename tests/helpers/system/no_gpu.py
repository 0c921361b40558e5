"""Hide the GPU of this machine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from mmssprl.system.processes import call_in_process

HAS_GPU = torch.cuda.is_available()
if HAS_GPU:
    torch.cuda.init()  # while a GPU is hidden PyTorch would find none, and remember it
    torch.cuda.device_count()


@contextmanager
def hidden_gpu() -> Iterator[None]:
    """Let this process train on the CPU, and those that it starts find no GPU."""
    with pytest.MonkeyPatch.context() as patch:
        # mmengine has looked when it was imported.
        patch.setattr("mmengine.device.utils.DEVICE", "cpu")
        patch.setattr(torch.cuda, "is_available", lambda: False)
        patch.setattr(torch.cuda, "device_count", lambda: 0)
        patch.setenv("CUDA_VISIBLE_DEVICES", "-1")
        yield


def call_without_gpu(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function whose forked processes train; pickle must find it by its name.

    A copy of a process that has seen a GPU can use neither that nor autograd: there it is called
    in a new one.
    """
    if not HAS_GPU:
        return function(*args)
    with hidden_gpu(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")  # threads do not survive a fork either
        return call_in_process(function, *args)
