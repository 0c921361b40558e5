"""Parts that are replaced, where a module has several names."""

import sys
from types import ModuleType

import pytest
import torch
from timm.layers import BatchNormAct2d
from torch import nn

from mmssprl.models import ModuleBackbone
from mmssprl.models.grouped_batch_norm import GroupedBatchNorm, check_groups, group_batch_norms
from mmssprl.models.timm_backbone import split_norms


def used_twice(part):
    """A network with a part under two names of one parent, and under one of another parent."""
    return nn.Sequential(part, nn.Conv2d(4, 4, 1), part, nn.Sequential(part))


def all_names(network):
    return [network[0], network[2], network[3][0]]


def test_a_shared_batch_norm_is_grouped_under_all_its_names():
    network = used_twice(nn.BatchNorm2d(4))
    names = [*network.state_dict()]
    check_groups(group_batch_norms(network, 2), 2, 8)
    first, *others = all_names(network)
    assert type(first) is GroupedBatchNorm
    assert all(each is first for each in others)
    assert [*network.state_dict()] == names


def test_a_shared_norm_of_timm_is_split_under_all_its_names():
    network = used_twice(BatchNormAct2d(4))
    images = torch.randn(2, 4, 3, 3, generator=torch.Generator().manual_seed(0))
    expected = network.eval()(images)
    split_norms(network)
    first, *others = all_names(network)
    assert not any(isinstance(each, BatchNormAct2d) for each in network.modules())
    assert all(each is first for each in others)
    assert torch.equal(network.eval()(images), expected)


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_shared_part_that_is_compiled_has_its_own_names(is_whole, monkeypatch):
    part = nn.Sequential(torch.compile(nn.Conv2d(4, 4, 1), backend="eager"))
    network = used_twice(torch.compile(part, backend="eager"))
    module = ModuleType("compiled_nets")
    module.net = lambda: torch.compile(network, backend="eager") if is_whole else network
    monkeypatch.setitem(sys.modules, "compiled_nets", module)
    found = ModuleBackbone("compiled_nets:net")
    plain = used_twice(nn.Sequential(nn.Conv2d(4, 4, 1)))
    assert [*found.state_dict()] == [*plain.state_dict()]
