"""Exact counts of a model against formulas and real passes."""

import pytest
import torch
from torch import nn

from tools.dev.speed import models
from tools.dev.speed.models import build_model
from tools.dev.speed.runs import run_config


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
    assert models.flops_per_image(cfg) == conv


def test_equivalent_crops_of_the_shipped_models():
    assert models.equivalent_crops(28) == pytest.approx(7.41, abs=0.01)
    assert models.equivalent_crops(34) == pytest.approx(8.51, abs=0.01)
