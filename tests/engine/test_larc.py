import numpy as np
import pytest
import reference
import torch

from mmssprl.engine import LARC

pytestmark = pytest.mark.fence

SETTINGS = {"lr": 0.6, "momentum": 0.9, "weight_decay": 1e-2, "trust_coefficient": 0.02}


def make_params(dtype=torch.float32, shapes=((4, 3, 3, 3), (7,), (5, 2), (1,))):
    generator = torch.Generator().manual_seed(0)
    params = [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]
    params[1].zero_()  # a bias at its initial zero
    return [torch.nn.Parameter(p) for p in params]


def grads_of_step(params, step):
    generator = torch.Generator().manual_seed(step)
    grads = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in params]
    if step == 2:
        grads[2].zero_()
    return grads


@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_equals_the_float64_reference_over_steps(dtype, error):
    params = make_params(dtype)
    optimizer = LARC(params, **SETTINGS)
    expected = [(p.detach().double().numpy(), np.zeros(p.shape)) for p in params]
    for step in range(5):
        optimizer.param_groups[0]["lr"] = lr = 0.6 / (step + 1)
        for i, (p, g) in enumerate(zip(params, grads_of_step(params, step), strict=True)):
            p.grad = g
            weights, buf = expected[i]
            expected[i] = reference.larc_step(
                weights, g, buf, lr=lr, momentum=0.9, weight_decay=1e-2, trust=0.02
            )
        optimizer.step()
        for p, (weights, _) in zip(params, expected, strict=True):
            assert np.abs(p.detach().numpy() - weights).max() <= error * np.abs(weights).max()


def test_norms_of_millions_of_weights_are_exact():
    generator = torch.Generator().manual_seed(0)
    param = torch.nn.Parameter(torch.randn(2_400_000, generator=generator))
    param.grad = torch.randn(param.shape, generator=generator)
    before = param.detach().double()
    grad = param.grad.double()
    LARC([param], lr=1.0, weight_decay=0.0, trust_coefficient=1.0).step()
    expected = before - before.norm() / grad.norm() * grad
    assert (param.double() - expected).abs().max() < 1e-6 * expected.abs().max()


def ones_with_gradient():
    param = torch.nn.Parameter(torch.ones(2))
    param.grad = torch.ones(2)
    return param


def test_a_parameter_without_gradient_stays():
    frozen = torch.nn.Parameter(torch.ones(2))
    optimizer = LARC([ones_with_gradient(), frozen], lr=1.0)
    optimizer.step()
    assert torch.equal(frozen, torch.ones(2))
    assert frozen not in optimizer.state


def test_each_group_has_its_own_rate():
    trained = ones_with_gradient()
    resting = ones_with_gradient()
    LARC([{"params": [trained]}, {"params": [resting], "lr": 0.0}], lr=1.0).step()
    assert not torch.equal(trained, torch.ones(2))
    assert torch.equal(resting, torch.ones(2))


def test_a_closure_gives_gradients_for_the_loss_that_is_returned():
    param = torch.nn.Parameter(torch.ones(2))

    def closure():
        loss = 2 * param.sum()
        loss.backward()
        return loss

    assert LARC([param], lr=1.0).step(closure) == 4.0
    assert not torch.equal(param, torch.ones(2))


def test_a_group_can_leave_its_vectors_to_plain_sgd():
    shapes = [(4, 3, 3, 3), (7,), (5, 2), ()] * 2
    params = make_params(shapes=shapes)
    groups = [{"params": params[:4], "exclude_bias_and_norm": True}, {"params": params[4:]}]
    optimizer = LARC(groups, **SETTINGS)
    plain = make_params(shapes=shapes)
    sgd = torch.optim.SGD(plain, lr=0.6, momentum=0.9)
    for step in range(3):
        for p, other, g in zip(params, plain, grads_of_step(params, step), strict=True):
            p.grad = g
            other.grad = g.clone()
        optimizer.step()
        sgd.step()
    are_plain = [torch.allclose(*pair, rtol=1e-6) for pair in zip(params, plain, strict=True)]
    assert are_plain == [False, True, False, True] + [False] * 4


def steps_in_float16(scaler, factors):
    """Return the weights after each step on a loss that is multiplied by a factor."""
    param = torch.nn.Parameter(torch.full((4, 4), 0.5))
    optimizer = LARC([param], **SETTINGS)
    weights = []
    for factor in factors:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            output = torch.arange(1.0, 5.0) @ param  # float16: its gradient ends at 65,504
        scaler.scale(factor * output.float().sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        weights.append(param.detach().clone())
    return weights


def test_a_scaler_skips_only_the_step_of_an_overflow():
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    first, skipped, last = steps_in_float16(scaler, (1.0, 1e4, 1.0))
    assert torch.equal(skipped, first)
    assert scaler.get_scale() == 2.0**9
    plain = steps_in_float16(torch.amp.GradScaler("cpu", enabled=False), (1.0, 1.0))
    torch.testing.assert_close([first, last], plain)


def test_bad_settings():
    for name, value, rule in (
        ("lr", -1.0, ">= 0"),
        ("momentum", 1.0, r"in \[0, 1\)"),
        ("weight_decay", -1e-6, ">= 0"),
        ("trust_coefficient", 0.0, "> 0"),
        ("eps", 0.0, "> 0"),
    ):
        with pytest.raises(ValueError, match=f"{name} must be {rule}, but got {value}"):
            LARC(make_params(), **{name: value})
