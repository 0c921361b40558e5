from types import SimpleNamespace

import pytest
import torch
from mmengine.optim import OptimWrapper
from torch import nn

from mmssprl.engine.hooks import ClipGradientsHook

MODULES = ["backbone", "head"]


@pytest.fixture
def model():
    return nn.ModuleDict({name: nn.Linear(2, 1, bias=False) for name in (*MODULES, "neck")})


def loss(model, backbone=(30.0, 40.0), head=(0.0, 20.0), neck=(300.0, 400.0)):
    """Linear in the weights, so that these are the gradients."""
    slopes = {"backbone": backbone, "head": head, "neck": neck}
    return sum((torch.tensor(slopes[n]) * model[n].weight).sum() for n in slopes)


def attach(model, optimizer, max_norm=10.0):
    wrapper = OptimWrapper(optimizer)
    runner = SimpleNamespace(model=model, optim_wrapper=wrapper)
    ClipGradientsHook(MODULES, max_norm).before_train(runner)
    return wrapper


def moves(model, step):
    """What a step with learning rate 1 subtracts from each module's weights."""
    before = {name: module.weight.detach().clone() for name, module in model.items()}
    step()
    return {name: (before[name] - m.weight.detach())[0].tolist() for name, m in model.items()}


def test_each_module_is_clipped_on_its_own_and_others_are_not(model):
    wrapper = attach(model, torch.optim.SGD(model.parameters(), lr=1.0))
    found = moves(model, lambda: wrapper.update_params(loss(model)))
    assert found["backbone"] == pytest.approx([6, 8], abs=1e-4)
    assert found["head"] == pytest.approx([0, 10], abs=1e-4)
    assert found["neck"] == pytest.approx([300, 400], abs=1e-3)


def test_a_scaled_loss_is_clipped_after_it_is_unscaled(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    attach(model, optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def step():
        scaler.scale(loss(model, head=(3.0, 4.0))).backward()
        scaler.step(optimizer)

    found = moves(model, step)
    assert found["backbone"] == pytest.approx([6, 8], abs=1e-4)
    # Clipped before, its norm of 5 x 1024 would have become 10 / 1024.
    assert found["head"] == pytest.approx([3, 4], abs=1e-5)


def test_refuses(model):
    with pytest.raises(ValueError, match=r"max_norm must be > 0, but got 0; remove the hook"):
        ClipGradientsHook(MODULES, 0)
    del model["head"]
    with pytest.raises(ValueError, match=r"parts of the model, but \['head'\] are not; its parts"):
        attach(model, torch.optim.SGD(model.parameters(), lr=1.0))
