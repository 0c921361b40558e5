"""The dispatch modes that count, on operators that are known."""

import pytest
import torch

from tools.dev.speed.counters import SyncCounter


def waits():
    x = torch.arange(4.0)

    class ReadInBackward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * grad.sum().item()

    def backward():
        ReadInBackward.apply(x.clone().requires_grad_()).sum().backward()

    return {
        "item": lambda: x[0].item(),
        "float": lambda: float(x.sum()),
        "if": lambda: bool(x.sum() > 0),
        "nonzero": lambda: x.nonzero(),
        "mask": lambda: x[x > 1],
        "assign by mask": lambda: x.clone().__setitem__(x > 1, torch.tensor(0.0)),
        "masked_select": lambda: x.masked_select(x > 1),
        "unique": lambda: x.unique(),
        "equal": lambda: torch.equal(x, x + 1),
        "tolist": lambda: x.tolist(),
        "numpy": lambda: x.numpy(),
        "cpu": lambda: x.cpu(),
        "backward": backward,
    }


@pytest.mark.parametrize("name", waits())
def test_sync_counter_sees_each_wait_once(name):
    counter = SyncCounter()
    with counter, counter.patched():
        waits()[name]()
    assert len(counter.take()) == 1
    assert not counter.take()


def test_sync_counter_lets_work_without_waits_pass():
    x, order = torch.arange(6.0).view(2, 3), torch.tensor([1, 0])
    counter = SyncCounter()
    with counter, counter.patched():
        torch.where(x > 1, x, 0.0).masked_fill_(x > 2, 1.0)
        x[order].sort(dim=1)
        x[:, 1] = 3.0
        x.to("cpu", non_blocking=True)
    assert counter.take() == []
