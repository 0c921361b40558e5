import math

import pytest
import torch
from helpers.models.small_ssprl import BACKBONE
from mmengine.registry import DefaultScope
from mmpretrain.structures import DataSample

from mmssprl.models import MultiLabelLoss
from mmssprl.registry import MODELS


def build(frozen, **backbone):
    with DefaultScope.overwrite_default_scope("mmssprl"):
        model = MODELS.build(
            {
                "type": "MultiLabelClassifier",
                "frozen_backbone": frozen,
                "backbone": {**BACKBONE, **backbone},
                "head": {
                    "type": "MultiLabelLinearClsHead",
                    "num_classes": 3,
                    "in_channels": 8,
                    "loss": {"type": "MultiLabelLoss"},
                },
            }
        )
    model.init_weights()
    return model


def step(model):
    """One step of plain gradient descent with rate 1 in training mode."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(4, 3, 32, 32, generator=generator)
    samples = [DataSample().set_gt_score(torch.tensor([1.0, 0.0, -1.0])) for _ in range(4)]
    model.train()
    loss = model.loss(images, samples)["loss"]
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= parameter.grad
    return loss


def loss_by_hand(logits, target):
    """Sigmoid BCE in float64, summed over the known classes, averaged over images."""
    total = 0.0
    for row, truth in zip(logits.double().tolist(), target.tolist(), strict=True):
        for x, y in zip(row, truth, strict=True):
            p = 1 / (1 + math.exp(-x))
            total -= {1: math.log(p), 0: math.log(1 - p), -1: 0.0}[int(y)]
    return total / len(logits)


def test_loss_equals_the_formula_and_ignores_what_is_not_counted():
    generator = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(6, 5, generator=generator)
    target = torch.randint(-1, 2, (6, 5), generator=generator).float()
    assert set(target.flatten().tolist()) == {-1, 0, 1}
    loss = MultiLabelLoss()(logits, target)
    assert math.isclose(loss, loss_by_hand(logits, target), rel_tol=1e-6)
    logits[target < 0] = 7.0
    assert torch.equal(MultiLabelLoss()(logits, target), loss)


@pytest.mark.parametrize("frozen", [True, False])
def test_all_of_the_backbone_moves_or_nothing(frozen):
    model = build(frozen, zero_init_residual=False)
    backbone = {k: v.clone() for k, v in model.backbone.state_dict().items()}
    head = model.head.fc.weight.clone()
    step(model)
    assert all(module.training is not frozen for module in model.backbone.modules())
    for key, value in model.backbone.state_dict().items():
        assert torch.equal(value, backbone[key]) is frozen, key  # running statistics, too
    assert not torch.equal(model.head.fc.weight, head)
    assert model.extract_feat(torch.zeros(2, 3, 32, 32))[-1].requires_grad is not frozen
