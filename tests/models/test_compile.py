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


def pair_of(num_chunks=1):
    """A compiled model and an eager one of the same weights."""
    compiled = make_model(num_chunks)
    compiled.compile_backbone = True
    return compiled, make_model(num_chunks)


def gradients_of(model):
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("num_chunks", [1, 2])
def test_training_equals_eager(num_chunks):
    pair = pair_of(num_chunks)
    losses = [model(crops_of(), mode="loss") for model in pair]
    torch.testing.assert_close(*losses, rtol=1e-5, atol=1e-5)
    for terms in losses:
        sum(terms.values()).backward()
    assert relative_error(*map(gradients_of, pair)) < 1e-3
    statistics = [dict(model.backbone.named_buffers()) for model in pair]
    torch.testing.assert_close(*statistics, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_evaluation_equals_eager():
    features = [model.eval().extract_feat(crops_of(1)) for model in pair_of()]
    torch.testing.assert_close(*features, rtol=1e-5, atol=1e-5)


def test_there_is_one_graph_per_view_size_in_each_mode():
    compiled, _ = pair_of()
    compiled(crops_of(), mode="loss")
    with torch.no_grad():
        compiled.eval().extract_feat(crops_of(1))
    assert counters["stats"]["unique_graphs"] == 2 * len(CROPS)


def test_as_many_variants_as_four_sizes_need():
    # Four sizes in training, evaluation and autocast exceed torch's own limit of 8.
    run = pyramid_model.compiled(pyramid_model.crop_features)
    network = nn.ReLU()
    for px in range(8, 20):
        run(network, torch.zeros(2, 2, 3, px, px))
    assert counters["stats"]["unique_graphs"] == 12
