import torch
from torch import nn

from mmssprl.models import MomentumEncoder


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
        self.neck = nn.Linear(4, 2)
        self.momentum_encoder = MomentumEncoder(self.backbone, self.neck)


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
    with torch.no_grad():
        model.neck.weight.fill_(7.0)
    assert 7.0 not in model.momentum_encoder.copies[1].weight  # the memory is not shared
