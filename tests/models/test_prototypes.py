import pytest
import torch

from mmssprl.models import CorrelationLearner, Prototypes


@pytest.mark.parametrize("module", [Prototypes(4, 3), CorrelationLearner(4, 3)])
def test_frozen_gets_a_zero_gradient_and_passes_the_input_s(module):
    x = torch.randn(5, 4, requires_grad=True)
    module(x, frozen=True).square().sum().backward()
    frozen_grad = x.grad.clone()
    assert torch.equal(module.weight.grad, torch.zeros(3, 4))
    x.grad = None
    module(x).square().sum().backward()
    assert module.weight.grad.abs().max() > 0
    assert torch.equal(x.grad, frozen_grad)
    # Not even an overflow makes it NaN.
    module.zero_grad()
    (module(x, frozen=True).sum() * float("inf")).backward()
    assert torch.equal(module.weight.grad, torch.zeros(3, 4))
