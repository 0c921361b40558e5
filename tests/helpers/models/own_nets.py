"""A user's networks, with layer names that have a meaning elsewhere."""

from collections import OrderedDict
from functools import partial

import torch
from torch import nn
from torchvision.models import resnet18


class Net(nn.Module):
    """Two maps of 8 and 12 features, and a vector of 5."""

    def __init__(self, gives):
        super().__init__()
        self.gives = gives
        self.inner = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.backbone = nn.Conv2d(8, 12, 3, 2, 1)
        self.fc = nn.Linear(12, 5)

    def forward(self, images):
        first = self.inner(images)
        last = self.backbone(first)
        vector = self.fc(last.mean((2, 3)))
        named = {"p3": first, "p4": last}
        every = (last, (first, last), named, vector, last.flatten(2), None, last.flatten(1))
        return dict(zip(GIVES, every, strict=True))[self.gives]


GIVES = ("one_map", "maps", "named_maps", "vector", "tokens", "nothing", "size")
one_map, maps, named_maps, vector, tokens, nothing, size = (partial(Net, g) for g in GIVES)


def with_width(width):
    return width


def number():
    return 3


def narrow():
    return nn.Linear(2, 3)


def with_record():
    """A network with timm's record of its images, in shares of white."""
    net = maps()
    net.pretrained_cfg = {"mean": (0.2, 0.4, 0.6), "std": (0.3, 0.2, 0.1)}
    return net


def with_numbers():
    """A network with the mean and deviation of its images as buffers, in 0 to 255."""
    net = maps()
    net.register_buffer("mean", torch.tensor([90.0, 80.0, 70.0]).view(3, 1, 1), persistent=False)
    net.register_buffer("std", torch.tensor([40.0, 50.0, 60.0]).view(3, 1, 1), persistent=False)
    return net


def with_other_attributes():
    """A network whose mean is a method, and whose std is of its features."""
    net = maps()
    net.mean = net.forward
    net.std = torch.ones(12)
    return net


def with_a_deviation_of_zero():
    net = maps()
    net.mean = (0.5, 0.5, 0.5)
    net.std = (0.5, 0.0, 0.5)
    return net


def wrapped():
    """All names begin like those of DistributedDataParallel. It has 4 input channels."""
    return nn.Sequential(OrderedDict(module=nn.Conv2d(4, 6, 3)))


def frozen():
    return maps().requires_grad_(False)


def trained():
    """A network whose BatchNorm has seen a batch."""
    net = maps()
    net.inner[1].num_batches_tracked += 1
    return net


def scaled():
    """A network with trained weights, as its GroupNorm shows."""
    norm = nn.GroupNorm(4, 12)
    norm.weight.data[0] = 0.9
    return nn.Sequential(nn.Conv2d(3, 12, 3), norm)


def resnet():
    """torchvision's ResNet inside another module."""
    return nn.Sequential(OrderedDict(module=resnet18(num_classes=5)))


def zero_scaled():
    return resnet18(zero_init_residual=True)
