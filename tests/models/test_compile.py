import functools

import pytest
import torch
from helpers.models.chunked_model import (
    CROPS,
    assert_equal,
    crops_of,
    make_model,
    relative_error,
)
from torch import nn
from torch._dynamo.utils import counters

from mmssprl.models import pyramid_model


@pytest.fixture(autouse=True)
def no_kernels(monkeypatch):
    """Build graphs but no kernels, because compiling kernels takes seconds."""
    compiled = functools.partial(torch.compile, backend="aot_eager")
    monkeypatch.setattr(torch, "compile", compiled)
    pyramid_model.compiled.cache_clear()
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()
    pyramid_model.compiled.cache_clear()


def train(model, step=0):
    """Losses and gradients of one step of plain gradient descent."""
    model.zero_grad()
    losses = model(crops_of(step), mode="loss")
    sum(losses.values()).backward()
    grads = {name: p.grad.clone() for name, p in model.named_parameters()}
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
    return losses, grads


@pytest.mark.parametrize("num_chunks", [1, 2])
def test_training_and_evaluation_equal_eager(num_chunks):
    eager, compiled = make_model(num_chunks), make_model(num_chunks)
    compiled.compile_backbone = True
    expected, got = train(eager), train(compiled)
    assert_equal(got[0], expected[0], rtol=1e-5, atol=1e-5)
    assert relative_error(got[1], expected[1]) < 1e-3
    for (name, a), b in zip(
        compiled.backbone.named_buffers(), eager.backbone.buffers(), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5, msg=name)
    compiled.load_state_dict(eager.state_dict())
    for model in (eager, compiled):
        model.eval()
    with torch.no_grad():
        for a, b in zip(
            compiled.extract_feat(crops_of(1)), eager.extract_feat(crops_of(1)), strict=True
        ):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    # One graph per view size, in training and in evaluation.
    assert num_chunks > 1 or counters["stats"]["unique_graphs"] == 2 * len(CROPS)


def test_as_many_variants_as_four_sizes_need():
    # Four sizes in training, evaluation and autocast exceed torch's own limit of 8.
    network = nn.Conv2d(3, 2, 3)
    run = pyramid_model.compiled(pyramid_model.crop_features)
    for px in range(8, 20):
        run(network, torch.zeros(2, 2, 3, px, px))
    assert counters["stats"]["unique_graphs"] == 12
