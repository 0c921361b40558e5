import pytest
import torch

from mmssprl.models import CorrelationLearner, Prototypes


def test_rows_are_normalised_in_place():
    prototypes = Prototypes(3, 5)
    torch.testing.assert_close(prototypes.weight.norm(dim=1), torch.ones(5))
    weight, directions = prototypes.weight, prototypes.weight.detach().clone()
    prototypes.weight.data *= torch.arange(1.0, 6.0)[:, None]
    prototypes.normalize_()
    assert prototypes.weight is weight
    torch.testing.assert_close(prototypes.weight, directions)


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
