import pytest
import torch
from helpers.models.head_cases import LAYOUT
from torch.nn import functional as F

from mmssprl.models import CorrelationLearner, MultiHeadNeck, Prototypes


def make_neck(**kwargs):
    torch.manual_seed(0)
    sizes = {"in_channels": 6, "hid_channels": 5, "out_channels": 4}
    return MultiHeadNeck(LAYOUT, **{**sizes, **kwargs})


def features():
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(2, m, 3, 6, generator=generator) for m in (1, 4, 9)]


def test_each_scale_has_a_head_that_sees_all_its_rows_at_once():
    neck = make_neck()
    outputs = neck(features())
    assert not torch.equal(neck.heads[0][0].weight, neck.heads[1][0].weight)
    for x, (linear, norm, _, last), output in zip(features(), neck.heads, outputs, strict=True):
        hidden = F.linear(x.reshape(-1, 6), linear.weight, linear.bias)
        hidden = (hidden - hidden.mean(0)) / (hidden.var(0, unbiased=False) + norm.eps).sqrt()
        z = F.linear(hidden.relu(), last.weight, last.bias)
        expected = (z / z.norm(dim=1, keepdim=True)).reshape(2, -1, 3, 4)
        torch.testing.assert_close(output, expected)


def test_hidden_zero_is_a_linear_head():
    neck = make_neck(hid_channels=0)
    x = features()[0]
    head = neck.heads[0]
    expected = F.normalize(F.linear(x, head.weight, head.bias), dim=-1)
    torch.testing.assert_close(neck(features())[0], expected)


def test_embeddings_are_float32_under_autocast():
    neck = make_neck()
    with torch.autocast("cpu", torch.bfloat16):
        z = neck(features())[0]
    assert z.dtype == torch.float32
    torch.testing.assert_close(z.norm(dim=-1), torch.ones(2, 1, 3))


def test_features_of_another_size_are_refused():
    with pytest.raises(ValueError, match="in_channels=7.*in_channels=6"):
        make_neck(in_channels=7)(features())


def test_features_of_other_scales_are_refused():
    with pytest.raises(ValueError, match=r"3 scales, .*features of 2; .*neck\.layout"):
        make_neck()(features()[:2])


FREEZABLE = [Prototypes, CorrelationLearner]


@pytest.mark.parametrize("kind", FREEZABLE)
def test_a_frozen_weight_gets_a_zero_gradient(kind):
    module = kind(4, 3)
    module(torch.randn(5, 4), frozen=True).square().sum().backward()
    assert torch.equal(module.weight.grad, torch.zeros(3, 4))
    module(torch.randn(5, 4)).square().sum().backward()
    assert module.weight.grad.abs().max() > 0


@pytest.mark.parametrize("kind", FREEZABLE)
def test_an_overflow_leaves_the_gradient_of_a_frozen_weight_zero(kind):
    module = kind(4, 3)
    (module(torch.randn(5, 4), frozen=True).sum() * float("inf")).backward()
    assert torch.equal(module.weight.grad, torch.zeros(3, 4))


@pytest.mark.parametrize("kind", FREEZABLE)
def test_a_frozen_weight_passes_the_gradient_of_the_input(kind):
    module = kind(4, 3)
    x = torch.randn(5, 4, requires_grad=True)
    grads = []
    for frozen in (True, False):
        loss = module(x, frozen=frozen).square().sum()
        grads += torch.autograd.grad(loss, x)
    assert torch.equal(*grads)
    assert grads[0].any()
