import pytest
import torch
from torch import nn

from mmssprl.models.grouped_batch_norm import GroupedBatchNorm, group_batch_norms
from mmssprl.registry import MODELS


def train_step(norm, x):
    x = x.clone().requires_grad_()
    y = norm(x)
    (y**3).sum().backward()
    return y.detach(), x.grad, norm.weight.grad


def rows_of(layout):
    """Rows (12, 3, 2, 2), or (12, 3) without a layout, with another mean each, in float64."""
    x = torch.randn(12, 3, 2, 2, generator=torch.Generator().manual_seed(0)).double()
    x = 3 * x + torch.arange(12)[:, None, None, None]
    return x.contiguous(memory_format=layout) if layout else x[:, :, 0, 0]


def plain_norm(layout):
    kind = nn.BatchNorm2d if layout else nn.BatchNorm1d
    return kind(3, eps=1e-3).double()


LAYOUTS = [None, torch.contiguous_format, torch.channels_last]


@pytest.mark.parametrize("num_groups", [1, 4])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_group_is_normalised_alone(layout, num_groups):
    norm = plain_norm(layout)
    grouped = GroupedBatchNorm(3, num_groups, eps=1e-3).double()
    x = rows_of(layout)
    y, x_grad, weight_grad = train_step(grouped, x)
    assert layout is None or y.is_contiguous(memory_format=layout)
    parts = [train_step(norm, part) for part in x.split(12 // num_groups)]
    ys, x_grads, weight_grads = zip(*parts, strict=True)
    torch.testing.assert_close(y, torch.cat(ys))
    torch.testing.assert_close(x_grad, torch.cat(x_grads))
    torch.testing.assert_close(weight_grad, weight_grads[-1])  # summed over all backward passes


@pytest.mark.parametrize("momentum", [0.3, 1.0])
@pytest.mark.parametrize("num_groups", [1, 4])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_running_statistics_follow_the_mean_over_the_groups(layout, num_groups, momentum):
    grouped = GroupedBatchNorm(3, num_groups, eps=1e-3, momentum=momentum).double()
    x = rows_of(layout)
    grouped(x)
    # By hand: the momentum weighs the mean over the groups, and the rest weighs the start.
    groups = x.reshape(num_groups, 12 // num_groups, 3, -1).transpose(1, 2).flatten(2)
    mean = groups.mean(2).mean(0)
    var = groups.var(2).mean(0)
    torch.testing.assert_close(grouped.running_mean, momentum * mean)
    torch.testing.assert_close(grouped.running_var, 1 - momentum + momentum * var)
    assert grouped.num_batches_tracked == 1
    norm = plain_norm(layout)
    norm.load_state_dict(grouped.state_dict())
    torch.testing.assert_close(grouped.eval()(x), norm.eval()(x))


@pytest.fixture
def network():
    return MODELS.build({"type": "mmpretrain.ResNet", "depth": 18})


def test_every_norm_of_a_network_is_grouped(network):
    assert group_batch_norms(network, 4) is network
    norms = [m for m in network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    assert len(norms) == 20
    assert all(type(m) is GroupedBatchNorm and m.num_groups == 4 for m in norms)
    assert isinstance(network.norm1, GroupedBatchNorm)


def test_a_network_keeps_its_tensors_by_their_names(network):
    before = dict(network.state_dict(keep_vars=True))
    after = group_batch_norms(network, 4).state_dict(keep_vars=True)
    assert after.keys() == before.keys()
    assert all(after[name] is value for name, value in before.items())


def test_a_norm_alone_is_replaced():
    single = group_batch_norms(nn.BatchNorm1d(5, eps=1e-3), 2)
    assert (single.num_features, single.eps, single.num_groups) == (5, 1e-3, 2)


@pytest.mark.parametrize("other", [{"momentum": None}, {"track_running_stats": False}])
def test_norms_without_a_running_average_are_refused(other):
    with pytest.raises(ValueError, match=r"BatchNorm1d\(5, .*norm_cfg"):
        group_batch_norms(nn.BatchNorm1d(5, **other), 2)


class OwnBatchNorm(nn.BatchNorm2d):
    """Only normalises, by its own forward, as apex's."""

    def forward(self, inputs):
        return super().forward(inputs)


def test_a_norm_with_its_own_forward_is_refused_with_the_kinds_that_are_replaced():
    match = r"OwnBatchNorm, .* Take nn.BatchNorm1d, nn.BatchNorm2d or nn.SyncBatchNorm if it only"
    with pytest.raises(ValueError, match=match):
        group_batch_norms(OwnBatchNorm(3), 2)


def test_a_batch_that_groups_do_not_divide_is_refused():
    with pytest.raises(ValueError, match="model.bn_groups=4, but got 6"):
        GroupedBatchNorm(3, 4)(torch.zeros(6, 3))
