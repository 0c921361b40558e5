import pytest
import torch
from torch import nn

from mmssprl.models import MomentumEncoder


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
        self.neck = nn.Linear(4, 2)
        self.momentum_encoder = MomentumEncoder(self.backbone, self.neck)


def fill(module, value):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(value)


def values(module):
    return {x for parameter in module.parameters() for x in parameter.flatten().tolist()}


def test_copies_first_and_then_averages_by_hand():
    followed = nn.Linear(2, 1), nn.Linear(1, 1)
    encoder = MomentumEncoder(*followed)
    fill(followed[0], 8.0)  # loaded after the encoder was built
    fill(followed[1], 16.0)
    encoder.update(0.75)
    assert [values(module) for module in encoder.copies] == [{8.0}, {16.0}]
    fill(followed[0], 0.0)
    encoder.update(0.75)
    encoder.update(0.5)
    assert [values(module) for module in encoder.copies] == [{3.0}, {16.0}]  # 8 -> 6 -> 3
    encoder.update(1.0)
    assert values(encoder.copies[0]) == {3.0}
    assert values(followed[0]) == {0.0}
    for momentum in (-0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match=rf"momentum.*{momentum}"):
            encoder.update(momentum)


def test_statistics_of_the_copies_are_their_own():
    model = Model()
    encoder, x = model.momentum_encoder, torch.randn(8, 3, 2, 2)
    model.backbone(x)
    encoder.update(0.5)
    theirs = encoder.copies[0][1]
    assert torch.equal(theirs.running_mean, model.backbone[1].running_mean)
    before = theirs.running_mean.clone()
    model.backbone(x + 5)
    encoder.update(0.5)
    assert torch.equal(theirs.running_mean, before)
    encoder.copies[0](x)
    assert not torch.equal(theirs.running_mean, before)
    assert theirs.num_batches_tracked == 2


def test_has_neither_gradients_nor_a_second_copy_in_the_state_dict():
    model = Model()
    assert not any(p.requires_grad for p in model.momentum_encoder.parameters())
    assert all(p.requires_grad for p in (*model.backbone.parameters(), *model.neck.parameters()))
    num = len(model.backbone.state_dict()) + len(model.neck.state_dict())
    names = list(model.state_dict())
    assert len(names) == 2 * num + 1  # the count of updates
    assert sum(name.startswith("momentum_encoder.copies.") for name in names) == num
    fill(model.backbone, 7.0)
    assert 7.0 not in values(model.momentum_encoder)  # the memory is not shared
