"""Small networks saved as each project saves its own, for the tests of the conversion.

All are torchvision's ResNet (an eighth as wide, where that is enough), so that features come from
code that is not ours.
"""

import argparse
import pickle

import torch
from mmengine.logging import HistoryBuffer
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F
from torchvision.models.resnet import BasicBlock, ResNet

from mmssprl.weights.names import to_detectron2


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


def densecl(trunk):
    neck = {**under("mlp.", mlp(64, 8, 4)), **under("mlp2.", mlp(64, 8, 4))}
    both = pair("encoder_q", "encoder_k", trunk, neck)
    copies = under("backbone.", trunk)
    return {"state_dict": {**queue(), **queue("queue2"), **both, **copies}, "meta": {}}


def openselfsup_moco(trunk):
    state = densecl(trunk)["state_dict"]
    return {"state_dict": {k: v for k, v in state.items() if not k.startswith("backbone.")}}


def byol(trunk):
    both = pair("online_net", "target_net", trunk, under("mlp.", mlp(64, 8, 4, norm=True)))
    head = under("head.predictor.mlp.", mlp(4, 8, 4, norm=True))
    return {"state_dict": {**both, **head}}


def mmselfsup(trunk):
    """As mmengine saves: with histories, and the momentum encoder below the model."""
    copies = under("momentum_encoder.module.0.", other(trunk))
    hub = {"log_scalars": {"train/loss": HistoryBuffer([1.0], [1])}, "runtime_info": {"iter": 3}}
    state = {**under("backbone.", trunk), **copies, **under("neck.", mlp(64, 8, 4))}
    return {"meta": {"epoch": 3}, "state_dict": state, "message_hub": hub}


def ours(trunk):
    copies = under("key_encoder.backbone.", other(trunk))
    return {"state_dict": {**under("backbone.", trunk), **copies, **queue()}, "meta": {"iter": 5}}


def insloc(trunk):
    copies = under("backbone_k.", other(trunk))
    return {"state_dict": {**under("backbone.", trunk), **copies, **queue()}}


def dino(trunk):
    head = under("module.head.", mlp(64, 8, 4))
    student = {**under("module.backbone.", other(trunk)), **head}
    args = argparse.Namespace(arch="resnet18")
    return {"student": student, "teacher": {**under("backbone.", trunk), **head}, "args": args}


def timm_averaged(trunk):
    whole = {**trunk, "fc.weight": torch.randn(3, 64)}
    return {"state_dict": {**whole, **other(trunk)}, "state_dict_ema": whole, "metric": 0.7}


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


LAYOUTS = {
    # What saves it, the name of the file, the prefix of the backbone and those of its copies.
    swav: ("w.pth.tar", "module."),
    moco: ("w.pth.tar", "state_dict.module.encoder_q.", "state_dict.module.encoder_k."),
    densecl: (
        *("w.pth", "state_dict.backbone."),
        *("state_dict.encoder_q.0.", "state_dict.encoder_k.0."),
    ),
    openselfsup_moco: ("w.pth", "state_dict.encoder_q.0.", "state_dict.encoder_k.0."),
    byol: ("w.pth", "state_dict.online_net.0.", "state_dict.target_net.0."),
    mmselfsup: ("w.pth", "state_dict.backbone.", "state_dict.momentum_encoder.module.0."),
    ours: ("epoch_2.pth", "state_dict.backbone.", "state_dict.key_encoder.backbone."),
    insloc: ("w.pth", "state_dict.backbone.", "state_dict.backbone_k."),
    dino: ("w.pth", "teacher.backbone.", "student.module.backbone."),
    timm_averaged: ("w.pth.tar", "state_dict_ema.", "state_dict."),
    torchvision: ("w.safetensors", ""),
    extracted: ("legacy.pth", "state_dict."),
    detectron2: ("w.pkl", "model."),
    detectron2_fpn: ("w.pth", "model.backbone.bottom_up."),
}


def save(content, path, *, protocol=4):
    """Write a ``.pkl`` with pickle, ``.safetensors``, or anything else with torch."""
    if path.suffix == ".pkl":
        path.write_bytes(pickle.dumps(content, protocol=protocol))
    elif path.suffix == ".safetensors":
        save_file(content, path)
    else:
        torch.save(content, path, _use_new_zipfile_serialization="legacy" not in path.name)
    return path
