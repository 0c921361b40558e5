"""Networks of users that a pre-training would train in another way than they expect."""

import timm
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torchvision.ops import FrozenBatchNorm2d


def layers(width=8, norm=nn.BatchNorm2d):
    first = nn.Sequential(nn.Conv2d(3, width, 3, 4, 1), norm(width), nn.ReLU())
    return nn.Sequential(first, nn.Conv2d(width, 12, 3, 2, 1))


class Changed(nn.Module):
    """``layers`` whose output is changed by a function of the module."""

    def __init__(self, change, **parts):
        super().__init__()
        self.layers = layers()
        self.change = change
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, images):
        return self.change(self, self.layers(images))


def plain():
    return layers()


_ONCE = layers()


def created_once():
    """A new module around the same layers."""
    return nn.Sequential(_ONCE)


def partly_frozen():
    net = layers()
    net[0].requires_grad_(False)
    return net


def with_unused_part():
    return Changed(lambda own, maps: maps, side=nn.Conv2d(8, 8, 1), fc=nn.Linear(12, 5))


def classifier():
    return Changed(lambda own, maps: own.fc(maps.mean((2, 3))), fc=nn.Linear(12, 5))


def projection():
    return Changed(lambda own, maps: own.last(maps.mean((2, 3))), last=nn.Linear(12, 5))


def with_auxiliary_output():
    def change(own, maps):
        return (maps, own.side(maps)) if own.training else maps

    return Changed(change, side=nn.Conv2d(12, 12, 1))


def with_more_maps_in_training():
    """The last output is the same in both modes."""

    def change(own, maps):
        maps = own.drop(own.norm(maps))
        return (maps[:, :4], maps) if own.training else maps

    return Changed(change, norm=nn.BatchNorm2d(12), drop=nn.Dropout())


def dropped_by_a_function():
    """The last output has dropout in training, and no other output is like it."""

    def change(own, maps):
        last = F.dropout(own.side(maps), 0.1, own.training)
        return (maps, last) if own.training else last

    return Changed(change, side=nn.Conv2d(12, 12, 1))


def with_smaller_output_in_training():
    return Changed(lambda own, maps: (maps, maps[:, :, ::2, ::2]) if own.training else maps)


def checkpointed():
    """Reentrant gradient checkpoints, as ``with_cp`` of OpenMMLab."""

    def change(own, maps):
        return checkpoint(own.side, maps, use_reentrant=True)

    return Changed(change, side=nn.Conv2d(12, 12, 1), spare=nn.Conv2d(12, 12, 1))


def of_one_size():
    """It takes images of 32 px."""
    return Changed(lambda own, maps: own.last(maps.flatten(1)), last=nn.Linear(12 * 4 * 4, 5))


def squeezed():
    return Changed(lambda own, maps: maps.mean((2, 3), keepdim=True).squeeze())


def pooled_without_statistics():
    norm = nn.BatchNorm1d(12, track_running_stats=False)
    return Changed(lambda own, maps: own.norm(maps.mean((2, 3))), norm=norm)


def hidden_classifier():
    """A classifier without its last layer, as users cut torchvision's."""
    head = nn.Sequential(nn.Linear(12, 5), nn.ReLU())
    return Changed(lambda own, maps: own.classifier(maps.mean((2, 3))), classifier=head)


def fixed_norm():
    return layers(norm=lambda width: nn.GroupNorm(1, width, affine=False))


def channels_last():
    return Changed(lambda own, maps: maps.permute(0, 2, 3, 1))


def always_dropped():
    return Changed(lambda own, maps: F.dropout(maps))


def without_statistics():
    return layers(norm=lambda width: nn.BatchNorm2d(width, track_running_stats=False))


def with_frozen_norm():
    return layers(norm=FrozenBatchNorm2d)


class InEvaluation(nn.Sequential):
    """Layers whose BatchNorm stays in evaluation mode, as ``norm_eval`` of OpenMMLab."""

    def train(self, mode=True):
        super().train(mode)
        for part in self.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.eval()
        return self


def norm_eval():
    return InEvaluation(layers())


def without_gradient():
    def change(own, maps):
        maps.relu_()
        return maps.exp().add_(own.scale * maps).mul_(maps)

    return Changed(change, scale=nn.Parameter(torch.ones(1)))


def compiled():
    net = layers()
    net[1] = torch.compile(net[1], backend="eager")
    return torch.compile(net, backend="eager")


def lazy():
    return nn.LazyConv2d(4, 3)


def half():
    return layers().half()


def maps_in_a_dict():
    return Changed(lambda own, maps: {"feature_maps": (maps[:, :4], maps)})


def shared():
    """One convolution under two names."""
    net = nn.Sequential(*layers(12), nn.Conv2d(12, 12, 3, 1, 1), nn.Conv2d(12, 12, 3, 1, 1))
    net[3].weight = net[2].weight
    return net


def around_timm():
    return nn.Sequential(timm.create_model("test_resnet", num_classes=0, global_pool=""))


def around_two():
    net = around_timm()
    other = layers()
    other.default_cfg = {"mean": (0.1, 0.2, 0.3), "std": (0.4, 0.5, 0.6)}
    net.append(other)
    return net


def of_open_clip():
    net = layers()
    net.preprocess_cfg = {"size": 224, "mean": (0.1, 0.2, 0.3), "std": (0.4, 0.5, 0.6)}
    return net


def with_own_numbers():
    """A network of timm for images that are only divided by 255."""
    net = timm.create_model("test_resnet", num_classes=0)
    net.mean = (0.0, 0.0, 0.0)
    net.std = (1.0, 1.0, 1.0)
    return net


class Normalising(nn.Module):
    """Subtracts its buffer from images, as detectron2's and SAM's do."""

    def __init__(self, factor=1.0):
        super().__init__()
        self.layers = layers()
        self.factor = factor
        self.register_buffer("pixel_mean", torch.full((3, 1, 1), 0.5))

    def forward(self, images):
        return self.layers(images - self.factor * self.pixel_mean)


def normalising():
    return Normalising()


def normalising_by_one_number():
    net = Normalising()
    net.pixel_mean = torch.tensor(0.5).expand(3, 1, 1)
    return net


def with_unused_mean():
    return Normalising(0.0)


class NormRelu(nn.BatchNorm2d):
    """A BatchNorm with an activation, as in timm."""

    def forward(self, inputs):
        return super().forward(inputs).relu()


def with_norm_relu():
    return layers(norm=NormRelu)
