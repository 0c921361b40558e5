"""Exact counts of a model against formulas and real passes."""

import pytest
import torch
from torch import nn

from tools.dev.speed.common import counts
from tools.dev.speed.common.models import build_model, shipped_config
from tools.dev.speed.step.runs import run_config


def test_parameters_of_the_shipped_model():
    backbone = 23_508_032  # torchvision's resnet50 without fc
    neck = 3 * (2048 * 2048 + 2048 + 2 * 2048 + 2048 * 128 + 128)
    head = (300 + 150 + 150) * 128 + 2 * 300 * 150
    assert counts.parameter_counts(shipped_config()) == {
        "tensors": 161 + 3 * 6 + 5 - 2,
        "parameters": backbone + neck + head,
        "gradient_bytes": 4 * (backbone + neck + head),
    }


def test_flops_equal_the_layers_formula():
    cfg = run_config(28)
    conv = 0
    model = build_model(cfg)

    def add(layer, inputs, output):
        nonlocal conv
        kernel = layer.in_channels * layer.kernel_size[0] * layer.kernel_size[1]
        passes = 2 if layer is model.backbone.conv1 else 3  # nobody needs the images' gradient
        conv += 2 * kernel * output.numel() * passes

    for layer in model.backbone.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(add)
    with torch.no_grad():
        for num_crops, px in ((2, 48), (8, 40), (18, 32)):
            model.backbone(torch.zeros(num_crops, 3, px, px))

    heads = 0
    for rows, prototypes in ((2, 300), (8, 150), (18, 150)):
        heads += 6 * rows * (64 * 2048 + 2048 * 128 + 128 * prototypes)
    heads += 2 * 6 * 2 * 150 * 300  # both levels' correlation learners, two views
    assert counts.flops_per_image(cfg) == {"conv": conv, "heads": heads}


@pytest.mark.parametrize("bfloat16", [False, True])
def test_activations_equal_those_of_a_real_pass(bfloat16):
    cfg = run_config(28)
    model = build_model(cfg)
    model.head.eval()
    own = {t.data_ptr() for t in [*model.parameters(), *model.buffers()]}
    totals = []
    for batch in (2, 3):
        saved = []
        inputs = [torch.rand(n, batch, 3, px, px) for n, px in ((2, 48), (8, 40), (18, 32))]
        with (
            torch.autograd.graph.saved_tensors_hooks(lambda t, s=saved: s.append(t) or t, id),
            torch.autocast("cpu", torch.bfloat16, enabled=bfloat16),
        ):
            model(inputs, mode="loss")
        storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in saved}
        totals.append(sum(size for key, size in storages.items() if key not in own))
    assert counts.activation_bytes(cfg, bfloat16=bfloat16) == totals[1] - totals[0]


def test_activations_of_the_shipped_model():
    found = counts.activation_bytes(shipped_config(), bfloat16=True)
    assert found == pytest.approx(318e6, rel=0.02)


def test_equivalent_crops_of_the_shipped_models():
    assert counts.equivalent_crops(28) == pytest.approx(7.41, abs=0.01)
    assert counts.equivalent_crops(34) == pytest.approx(8.51, abs=0.01)
