import functools

import pytest
import torch
from helpers.models.chunked_model import CROPS, crops_of, make_model, relative_error
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


@pytest.mark.parametrize("num_chunks", [1, 2])
def test_training_and_evaluation_equal_eager(num_chunks):
    eager, compiled = make_model(num_chunks), make_model(num_chunks)
    compiled.compile_backbone = True
    expected, got = (model(crops_of(), mode="loss") for model in (eager, compiled))
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    for losses in (expected, got):
        sum(losses.values()).backward()
    grads = [{n: p.grad for n, p in model.named_parameters()} for model in (compiled, eager)]
    assert relative_error(*grads) < 1e-3
    statistics = [dict(model.backbone.named_buffers()) for model in (compiled, eager)]
    torch.testing.assert_close(*statistics, rtol=1e-5, atol=1e-5)
    if num_chunks > 1:
        return  # evaluation has no chunks
    compiled.load_state_dict(eager.state_dict())
    with torch.no_grad():
        features = [model.eval().extract_feat(crops_of(1)) for model in (compiled, eager)]
    torch.testing.assert_close(*features, rtol=1e-5, atol=1e-5)
    # One graph per view size, in training and in evaluation.
    assert counters["stats"]["unique_graphs"] == 2 * len(CROPS)


def test_as_many_variants_as_four_sizes_need():
    # Four sizes in training, evaluation and autocast exceed torch's own limit of 8.
    run = pyramid_model.compiled(pyramid_model.crop_features)
    network = nn.ReLU()
    for px in range(8, 20):
        run(network, torch.zeros(2, 2, 3, px, px))
    assert counters["stats"]["unique_graphs"] == 12
