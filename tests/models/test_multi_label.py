import math

import pytest
import torch
from helpers.models.small_ssprl import BACKBONE
from mmengine.registry import DefaultScope
from mmpretrain.structures import DataSample

from mmssprl.models import MultiLabelLoss
from mmssprl.registry import MODELS


def loss_by_hand(logits, target):
    """Sigmoid BCE in float64, summed over the known classes, averaged over images."""
    total = 0.0
    for row, truth in zip(logits.double().tolist(), target.tolist(), strict=True):
        for x, y in zip(row, truth, strict=True):
            p = 1 / (1 + math.exp(-x))
            if y >= 0:
                total -= math.log(p) if y == 1 else math.log(1 - p)
    return total / len(logits)


@pytest.fixture
def scored():
    """Logits and targets (6, 5), present, absent and ignored ones."""
    generator = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(6, 5, generator=generator)
    target = torch.randint(-1, 2, (6, 5), generator=generator).float()
    assert set(target.flatten().tolist()) == {-1, 0, 1}
    return logits, target


def test_the_loss_equals_the_formula(scored):
    logits, target = scored
    loss = MultiLabelLoss()(logits, target)
    assert loss.item() == pytest.approx(loss_by_hand(logits, target), rel=1e-6)


def test_ignored_targets_do_not_count(scored):
    logits, target = scored
    loss = MultiLabelLoss()(logits, target)
    ignored = target < 0
    logits[ignored] = 7.0
    assert torch.equal(MultiLabelLoss()(logits, target), loss)


@pytest.mark.parametrize("frozen", [True, False])
def test_all_of_the_backbone_learns_or_nothing(frozen):
    head = {"type": "MultiLabelLinearClsHead", "num_classes": 3, "in_channels": 8}
    head["loss"] = {"type": "MultiLabelLoss"}
    cfg = {"type": "MultiLabelClassifier", "frozen_backbone": frozen, "head": head}
    with DefaultScope.overwrite_default_scope("mmssprl"):
        model = MODELS.build({**cfg, "backbone": {**BACKBONE, "zero_init_residual": False}})
    model.init_weights()
    model.train()
    statistics = {name: value.clone() for name, value in model.backbone.named_buffers()}
    samples = [DataSample().set_gt_score(torch.tensor([1.0, 0.0, -1.0])) for _ in range(4)]
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    model.loss(images, samples)["loss"].backward()

    assert all(module.training is not frozen for module in model.backbone.modules())
    for name, value in model.backbone.named_buffers():
        assert torch.equal(value, statistics[name]) is frozen, name
    for name, parameter in model.backbone.named_parameters():
        assert (parameter.grad is None) is frozen, name
        assert frozen or parameter.grad.any(), name
    assert model.head.fc.weight.grad.any()
    assert model.extract_feat(images)[-1].requires_grad is not frozen
