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
from torchvision.models.resnet import BasicBlock, ResNet

from mmssprl.weights.names import to_detectron2


class Narrow(ResNet):
    """torchvision's ResNet-18 with stages of 8 to 64 channels behind its stem of 64."""

    def __init__(self):
        super().__init__(BasicBlock, [2, 2, 2, 2])
        self.fc = nn.Linear(64, 10)

    def _make_layer(self, block, planes, *args, **kwargs):
        return super()._make_layer(block, planes // 8, *args, **kwargs)


def randomise(net):
    """Give every norm its own statistics and gains; torchvision's are all 0 and 1."""
    generator = torch.Generator().manual_seed(0)

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


def trunk_of(net):
    return {key: value for key, value in net.state_dict().items() if not key.startswith("fc.")}


def under(prefix, tensors):
    return {prefix + key: value for key, value in tensors.items()}


def other(trunk):
    """The same names with other values: a momentum copy, which must not be taken."""
    return {key: torch.zeros_like(value) for key, value in trunk.items()}


def sequential(trunk):
    """Names in ``nn.Sequential(*list(resnet.children())[:-1])``, as in lightly's examples."""
    places = {"conv1": 0, "bn1": 1, "layer1": 4, "layer2": 5, "layer3": 6, "layer4": 7}
    parts = ((*key.partition("."), value) for key, value in trunk.items())
    return {f"{places[part]}{dot}{rest}": value for part, dot, rest, value in parts}


def inside(wrapper, state):
    """Names in a network whose first stage alone is wrapped."""
    return {key.replace("layer1.", f"layer1.{wrapper}."): v for key, v in state.items()}


def without(part, state):
    return {key: value for key, value in state.items() if part not in key}


FORMS = {  # of one network
    "sequential": sequential,
    "wrapped": lambda state: inside("_orig_mod", state),
    "parameters": lambda state: without("batches", without("running", state)),
    "uncounted": lambda state: without("batches", state),
    "arrays": lambda state: {key: value.numpy() for key, value in state.items()},
    "detectron2": lambda state: {to_detectron2(k): v for k, v in without("batches", state).items()},
}
BESIDE = {  # a network
    "epoch": lambda: {"epoch": 200, "arch": "resnet50", "author": "somebody"},
    "adam": lambda: {"state": {0: {"exp_avg": torch.ones(64, 3, 7, 7)}}, "param_groups": [{}]},
    "head": lambda: nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8)).state_dict(),
    "queue": lambda: {"queue": torch.randn(4, 6), "queue_ptr": torch.zeros(1, dtype=torch.long)},
    "rows": lambda: {"weight": torch.randn(6, 4)},
    "steps": lambda: {"steps": torch.tensor(3), "n_averaged": torch.tensor(3)},
    "args": lambda: {"args": argparse.Namespace(arch="resnet18")},
    "history": lambda: {"log_scalars": {"train/loss": HistoryBuffer([1.0], [1])}},
}
MOCO = (
    "=epoch state_dict/module.encoder_q.=T state_dict/module.encoder_q.fc.=head "
    "state_dict/module.encoder_k.=o state_dict/module.=queue optimizer/=adam"
)


def parts_of(layout):
    """Place, kind and forms of each part of ``PLACE=KIND[:FORM] ...``.

    A slash in PLACE opens a dict, the rest is a prefix of names. The kind `t` is a trunk, `w` has a
    classifier, too; the capital is the one to read. `o` and `x` are the same names with other
    values, `m` those of an optimizer's moments.
    """
    for place, _, what in (part.partition("=") for part in layout.split()):
        kind, *forms = what.split(":")
        yield place, kind, forms


def content_of(layout, trunk):
    """What a project saves."""
    content = {}
    for place, kind, forms in parts_of(layout):
        *folders, prefix = place.split("/")
        inner = content
        for folder in folders:
            inner = inner.setdefault(folder, {})
        state = BESIDE[kind]() if kind in BESIDE else dict(trunk)
        if kind in [*"wWxm"]:
            state |= {"fc.weight": torch.randn(3, 64), "fc.bias": torch.randn(3)}
        state = other(state) if kind in [*"oxm"] else state
        for form in forms:
            state = FORMS[form](state)
        inner |= under(prefix, state)
    return content


def save(content, path):
    """Write a ``.pkl`` with pickle, ``.safetensors``, or anything else with torch."""
    if path.suffix == ".pkl":
        path.write_bytes(pickle.dumps(content, protocol=4))
    elif path.suffix == ".safetensors":
        save_file(content, path)
    else:
        torch.save(content, path)
    return path
