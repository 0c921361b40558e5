"""Losses and gradients of the released method, for inputs without a random generator.

tests/reference.py made the numbers of golden.json. They must never change, so this test finds
changes that the code and the reference share.
"""

import json
from pathlib import Path

import pytest
import torch
from helpers.models.head_cases import make_head
from torch.nn import functional as F

pytestmark = pytest.mark.fence
GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())
SETTINGS = {"alpha": (0.25, 0.5), "beta": (0.3, 0.7), "cross_weight": 2.0}


def waves(*shape, phase):
    """Unit rows of sines of whole numbers, which are the same in every library."""
    numbers = torch.arange(1, 1 + torch.Size(shape).numel(), dtype=torch.float64)
    return F.normalize(torch.sin(numbers * 12.9898 + phase).reshape(shape), dim=-1)


def steps(variant):
    """Losses and all gradients of two steps. The second step uses the queues of the first."""
    queues = {"queue_length": 3, "patch_queue_length": (12, 27)}
    head = make_head(variant=variant, **SETTINGS, **queues)
    layers = [*head.prototypes, *head.correlation]
    with torch.no_grad():
        for i, layer in enumerate(layers):
            layer.weight.copy_(waves(*layer.weight.shape, phase=i))
    for step in range(2):
        sizes = [(2, 1), (2, 4), (2, 9)]
        z = [waves(*size, 3, 6, phase=10 * step + s) for s, size in enumerate(sizes)]
        z = [x.float().requires_grad_() for x in z]
        losses = head.loss(z)
        grads = torch.autograd.grad(sum(losses.values()), [*z, *(x.weight for x in layers)])
        yield (
            {name: float(loss.detach()) for name, loss in losses.items()},
            [x.flatten() for x in grads],
        )


@pytest.mark.parametrize("variant", ["released", "paper"])
def test_steps_are_the_golden_ones(variant):
    for (losses, grads), golden in zip(steps(variant), GOLDEN[variant], strict=True):
        assert losses == pytest.approx(golden["losses"], rel=1e-5)
        for grad, expected in zip(grads, golden["gradients"], strict=True):
            torch.testing.assert_close(grad.tolist(), expected, rtol=1e-3, atol=2e-6)
