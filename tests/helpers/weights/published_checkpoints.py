"""Small networks saved as each project saves its own, for the tests of the conversion.

All are torchvision's ResNet (an eighth as wide, where that is enough), so that features come from
code that is not ours.
"""

import pickle

import torch
from torch import nn
from torch.nn import functional as F
from torchvision.models.resnet import BasicBlock, ResNet

from mmssprl.weights.key_tables import to_detectron2


class Narrow(ResNet):
    """torchvision's ResNet-18 with stages of 8 to 64 channels behind its stem of 64."""

    def __init__(self):
        super().__init__(BasicBlock, [2, 2, 2, 2])
        self.fc = nn.Linear(64, 10)

    def _make_layer(self, block, planes, *args, **kwargs):
        return super()._make_layer(block, planes // 8, *args, **kwargs)


def randomise(net, seed=0):
    """Give every norm statistics and gains of its own; torchvision's are all 0 and 1."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(tensor, low, high):
        tensor.data.copy_(torch.rand(tensor.shape, generator=generator) * (high - low) + low)

    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            uniform(module.running_mean, -0.5, 0.5)
            uniform(module.running_var, 0.5, 2)
            uniform(module.weight, 0.5, 1.5)
            uniform(module.bias, -0.2, 0.2)
            module.num_batches_tracked.fill_(7)
    return net.eval()


@torch.no_grad()
def features(net, images, *, pads_outside=False):
    """The last feature map; ``pads_outside`` is SwAV's stem: 1 around the image, 2 in conv1."""
    if pads_outside:
        padded = F.pad(images, (1, 1, 1, 1))
        x = F.conv2d(padded, net.conv1.weight, stride=2, padding=2)
    else:
        x = net.conv1(images)
    x = net.maxpool(net.relu(net.bn1(x)))
    for stage in (net.layer1, net.layer2, net.layer3, net.layer4):
        x = stage(x)
    return x


def trunk_of(net):
    return {key: value for key, value in net.state_dict().items() if not key.startswith("fc.")}


def under(prefix, tensors):
    return {prefix + key: value for key, value in tensors.items()}


def mlp(*sizes, norm=False):
    layers = [nn.Linear(sizes[0], sizes[1])]
    if norm:
        layers.append(nn.BatchNorm1d(sizes[1]))
    return nn.Sequential(*layers, nn.ReLU(), nn.Linear(*sizes[1:])).state_dict()


def other(trunk):
    """The same names with other values: a momentum copy, which must not be taken."""
    return {key: torch.zeros_like(value) for key, value in trunk.items()}


def queue(name="queue"):
    return {name: torch.randn(4, 6), f"{name}_ptr": torch.zeros(1, dtype=torch.long)}


def swav(trunk):
    heads = {**under("projection_head.", mlp(64, 8, 4, norm=True))}
    return under("module.", {**trunk, **heads, "prototypes.weight": torch.randn(6, 4)})


def pair(online, momentum, trunk, neck, *, places=("0.", "1.")):
    """An encoder of trunk and neck, and its momentum copy."""
    first, second = places
    return {
        **under(f"{online}.", {**under(first, trunk), **under(second, neck)}),
        **under(f"{momentum}.", {**under(first, other(trunk)), **under(second, neck)}),
    }


def moco(trunk):
    both = pair("encoder_q", "encoder_k", trunk, mlp(64, 8, 4), places=("", "fc."))
    state = under("module.", {**both, **queue()})
    return {"epoch": 200, "arch": "resnet50", "state_dict": state, "optimizer": {"state": {}}}


def detco_port(trunk):
    """As shuuchen/DetCo.pytorch saves: stages a second time in ``layers``, heads in ``mlp``."""
    stages = {f"layers.{key}": value for key, value in trunk.items() if key.startswith("layer")}
    heads = under("mlp.0.", mlp(8, 8, 4))
    both = pair("encoder_q", "encoder_k", trunk, {**stages, **heads}, places=("", ""))
    return {"epoch": 200, "state_dict": under("module.", {**both, **queue()})}


def densecl(trunk):
    neck = {**under("mlp.", mlp(64, 8, 4)), **under("mlp2.", mlp(64, 8, 4))}
    both = pair("encoder_q", "encoder_k", trunk, neck)
    copies = under("backbone.", trunk)
    return {"state_dict": {**queue(), **queue("queue2"), **both, **copies}, "meta": {}}


def openselfsup_moco(trunk):
    state = densecl(trunk)["state_dict"]
    return {"state_dict": {key: v for key, v in state.items() if not key.startswith("queue2")}}


def byol(trunk):
    both = pair("online_net", "target_net", trunk, under("mlp.", mlp(64, 8, 4, norm=True)))
    head = under("head.predictor.mlp.", mlp(4, 8, 4, norm=True))
    return {"state_dict": {**both, **under("backbone.", trunk), **head}}


def insloc(trunk):
    necks = {f"{name}.lateral_convs.0.conv.weight": torch.randn(2) for name in ("neck", "neck_k")}
    copies = under("backbone_k.", other(trunk))
    queues = {"queues": torch.randn(2, 4, 6), "queue_ptr": torch.zeros(1, dtype=torch.long)}
    return {"state_dict": {**under("backbone.", trunk), **copies, **necks, **queues}}


def insloc_c4(trunk):
    """The last stage is the shared head of the detector's second half."""

    def split(tensors, suffix):
        return {
            f"roi_head{suffix}.shared_head.{key}"
            if key.startswith("layer4.")
            else f"backbone{suffix}.{key}": value
            for key, value in tensors.items()
        }

    return {"state_dict": {**split(trunk, ""), **split(other(trunk), "_k")}}


def openmmlab(trunk):
    return {"state_dict": {**under("backbone.", trunk), "head.fc.weight": torch.randn(2, 4)}}


def extracted(trunk):
    """As DenseCL, DetCo and OpenSelfSup publish a backbone; here without counters, and half."""
    state = {key: value.half() for key, value in trunk.items() if "batches" not in key}
    return {"state_dict": state, "author": "somebody"}


def torchvision(trunk):
    return {**trunk, "fc.weight": torch.randn(3, 64), "fc.bias": torch.randn(3)}


def detectron2_names(trunk):
    """The names that the tests of the export know; there are no counters of BatchNorm steps."""
    renamed = {to_detectron2(key): value for key, value in trunk.items()}
    renamed.pop(None)
    return renamed


def detectron2(trunk):
    arrays = {key: value.numpy() for key, value in detectron2_names(trunk).items()}
    arrays["stem.fc.weight"] = torch.randn(3, 64).numpy()
    return {"model": arrays, "__author__": "somebody", "matching_heuristics": True}


def detectron2_fpn(trunk):
    state = under("backbone.bottom_up.", detectron2_names(trunk))
    return {"model": {**state, "backbone.fpn_lateral2.weight": torch.randn(2)}, "iteration": 5}


def detectron2_c4(trunk):
    state = {
        f"{'roi_heads' if key.startswith('res5') else 'backbone'}.{key}": value
        for key, value in detectron2_names(trunk).items()
    }
    return {"model": {**state, "proposal_generator.conv.weight": torch.randn(2)}}


def save(content, path, *, protocol=4):
    """Write a ``.pkl`` with pickle, anything else with torch."""
    if path.suffix == ".pkl":
        path.write_bytes(pickle.dumps(content, protocol=protocol))
    else:
        torch.save(content, path)
    return path
