import copy
import functools
import os
import shutil

import pytest
import torch
from helpers.models.chunked_model import (
    CROPS,
    assert_equal,
    crops_of,
    make_model,
    relative_error,
    train,
)
from torch import nn
from torch._dynamo.utils import counters

from mmssprl.models import ssprl
from mmssprl.models.recomputation import recomputed_in_chunks


@pytest.fixture
def backend(request, monkeypatch):
    """The compiler's name: here one that makes the graphs but no kernels, which takes seconds."""
    name = getattr(request, "param", "aot_eager")
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=name))
    ssprl._compiled_features.cache_clear()
    torch._dynamo.reset()
    counters.clear()
    yield name
    torch._dynamo.reset()
    ssprl._compiled_features.cache_clear()


def compiled_model(**kwargs):
    model = make_model(**kwargs)
    model.compile_backbone = True
    return model


def test_training_and_evaluation_equal_eager(backend):
    eager, compiled = make_model(), compiled_model()
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
    # One graph for each size of views, in training and in evaluation.
    assert counters["stats"]["unique_graphs"] == 2 * len(CROPS)


def test_as_many_variants_as_four_sizes_need(backend):
    # Four sizes in training, evaluation and with autocast are more than torch's own limit of 8.
    network = nn.Conv2d(3, 2, 3)
    run = ssprl._compiled_features()
    for px in range(8, 20):
        run(network, torch.zeros(2, 2, 3, px, px))
    assert counters["stats"]["unique_graphs"] == 12


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="needs a C++ compiler"
)
@pytest.mark.parametrize("backend", ["inductor"], indirect=True)
def test_real_kernels_equal_eager(backend):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    network.to(memory_format=torch.channels_last)
    crops = torch.randn(2, 4, 3, 16, 16)
    run = ssprl._compiled_features()
    for training in (True, False):
        network.train(training)
        expected = ssprl.crop_features(copy.deepcopy(network), crops)
        torch.testing.assert_close(run(network, crops), expected, rtol=1e-5, atol=1e-5)
    network.train()
    expected_network = copy.deepcopy(network)
    weight = torch.randn(2, 4, 8)
    for each, function in ((expected_network, ssprl.crop_features), (network, run)):
        features = recomputed_in_chunks(function, each, crops, num_chunks=2, dim=1)
        (features * weight).sum().backward()
    for a, b in zip(network.parameters(), expected_network.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)
    for a, b in zip(network.buffers(), expected_network.buffers(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
