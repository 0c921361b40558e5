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


def sequential(trunk):
    """Of ``nn.Sequential(*list(resnet.children())[:-1])``, as in lightly's examples."""
    places = {"conv1": 0, "bn1": 1, "layer1": 4, "layer2": 5, "layer3": 6, "layer4": 7}
    parts = ((*key.partition("."), value) for key, value in trunk.items())
    return {f"{places[part]}{dot}{rest}": value for part, dot, rest, value in parts}


def inside(wrapper, state):
    """Of a network whose first stage alone is wrapped."""
    return {key.replace("layer1.", f"layer1.{wrapper}."): v for key, v in state.items()}


def without(part, state):
    return {key: value for key, value in state.items() if part not in key}


def detectron2(trunk):
    """The names that the tests of the export know; there are no counters of BatchNorm steps."""
    renamed = {to_detectron2(key): value for key, value in trunk.items()}
    renamed.pop(None)
    return renamed


FORMS = {
    # The same network, written in another way.
    "sequential": sequential,
    "wrapped": lambda state: inside("_orig_mod", state),
    "checkpointed": lambda state: inside("_checkpoint_wrapped_module", state),
    "parameters": lambda state: without("batches", without("running", state)),
    "uncounted": lambda state: without("batches", state),
    "arrays": lambda state: {key: value.numpy() for key, value in state.items()},
    "half": lambda state: {key: value.half() for key, value in without("batches", state).items()},
    "detectron2": detectron2,
}
BESIDE = {
    # What lies beside networks.
    "epoch": lambda: {"epoch": 200, "arch": "resnet50", "author": "somebody"},
    "adam": lambda: {"state": {0: {"exp_avg": torch.ones(64, 3, 7, 7)}}, "param_groups": [{}]},
    "head": lambda: mlp(64, 8, 4),
    "normed": lambda: mlp(64, 8, 4, norm=True),
    "queue": lambda: {"queue": torch.randn(4, 6), "queue_ptr": torch.zeros(1, dtype=torch.long)},
    "rows": lambda: {"weight": torch.randn(6, 4)},
    "steps": lambda: {"steps": torch.tensor(3), "n_averaged": torch.tensor(3)},
    "args": lambda: {"args": argparse.Namespace(arch="resnet18")},
    "history": lambda: {"log_scalars": {"train/loss": HistoryBuffer([1.0], [1])}},
}
_STATE, _VISSL = "state_dict/", "classy_state_dict/base_model/model/"
_SWA = "callbacks/StochasticWeightAveraging/average_model_state/"
LAYOUTS = {
    # Places with what lies there: a slash opens a dict, what follows stands before the names. `t`
    # is a trunk, `w` has a classifier, too, and the capital is to be read; `o` and `x` are the same
    # names with other values, and `m` those of an optimizer's moments.
    "swav": "module.=T module.projection_head.=normed module.prototypes.=rows",
    "moco": f"=epoch {_STATE}module.encoder_q.=T {_STATE}module.encoder_q.fc.=head "
    f"{_STATE}module.encoder_k.=o {_STATE}module.=queue optimizer/=adam",
    "densecl": f"{_STATE}=queue {_STATE}encoder_q.0.=t {_STATE}encoder_q.1.mlp.=head "
    f"{_STATE}encoder_k.0.=o {_STATE}backbone.=T",
    "byol": f"{_STATE}online_net.0.=T {_STATE}online_net.1.mlp.=normed {_STATE}target_net.0.=o",
    "mmselfsup": f"{_STATE}backbone.=T {_STATE}momentum_encoder.module.0.=o {_STATE}neck.=head "
    "message_hub/=history",
    "ours": f"{_STATE}backbone.=T {_STATE}key_encoder.backbone.=o {_STATE}=queue",
    "insloc": f"{_STATE}backbone.=T {_STATE}backbone_k.=o {_STATE}=queue",
    "dino": "student/module.backbone.=o student/module.head.=head teacher/backbone.=T "
    "teacher/head.=head =args",
    "timm averaged": f"{_STATE}=x state_dict_ema/=W",
    "torchvision": "=W",
    "extracted": f"{_STATE}=T:half =epoch",  # as DenseCL, DetCo and OpenSelfSup publish it
    "detectron2": "model/=T:detectron2:arrays model/stem.fc.=rows:arrays =epoch",
    "detectron2 fpn": "model/backbone.bottom_up.=T:detectron2 model/backbone.fpn_lateral2.=rows",
    **{
        f"under {prefix}": f"{prefix}=W"
        for prefix in (
            *("module.", "net.", "encoder.", "_orig_mod.module.", "model._orig_mod.backbone."),
        )
    },
    "arrays": "=W:arrays",
    "state": "=epoch optimizer/=adam model_state/=W",
    "three deep": "state/net/model/=W",
    "mmpretrain": f"{_STATE}backbone.=T {_STATE}head.=head",
    "Lightning module": f"{_STATE}model.backbone.=W",
    "moments by name": "model/=W optimizer/exp_avg/=m",
    "wrapped stage": "model/=W:wrapped",
    "checkpointed stage": "module.=W:checkpointed",
    # Averages of a training.
    "timm model_ema": "model/=x model_ema/=W",
    "modelEMA": "model/=x modelEMA/=W",
    "ema wrapped": "model/=x ema/=W:wrapped",
    "ema beside the backbone": f"{_STATE}net.=o {_STATE}ema_net.module.=T",
    "ema_state_dict": f"{_STATE}=x ema_state_dict/=W",
    "mmengine's, swapped": f"{_STATE}backbone.=T ema_state_dict/=steps "
    "ema_state_dict/module.backbone.=o",
    "ema of parameters alone": "model/=W ema/=x:parameters",
    "ema without counters": "model/=x ema/=W:uncounted",
    "AveragedModel": "=steps module.=W",
    "swa": "model/=x swa_model/=steps swa_model/module.=W",
    "Lightning, averaged": f"{_STATE}=W current_model_state/=x averaging_state/=steps",
    "Lightning SWA": f"{_STATE}net.=x {_SWA}net.=W",
    "student and teacher": "student.=o teacher.=T",
    # Methods of self-supervision.
    "lightly": f"{_STATE}backbone.=T:sequential {_STATE}head.=head",
    "Sequential": "=T:sequential",
    "lightly MoCo": "backbone.=T:sequential backbone_momentum.=o:sequential",
    "lightly DINO": "student_backbone.=o:sequential teacher_backbone.=T:sequential",
    "MoCo v3": f"optimizer/=adam {_STATE}module.base_encoder.=T "
    f"{_STATE}module.base_encoder.fc.=head {_STATE}module.momentum_encoder.=o",
    "SimSiam": f"{_STATE}module.encoder.=T {_STATE}module.encoder.head.=head",
    "query and key": "query_encoder/=W key_encoder/=x",
    "solo-learn": f"{_STATE}backbone.=T {_STATE}momentum_net.=o",
    "VISSL": f"{_VISSL}trunk/_feature_blocks.=T {_VISSL}heads/=head optimizer/=adam",
    "VISSL DINO": f"{_VISSL}trunk/_feature_blocks.=o "
    "classy_state_dict/loss/momentum_teacher.trunk._feature_blocks.=T",
}
FILES = {
    **{"swav": "w.pth.tar", "torchvision": "w.safetensors", "detectron2": "w.pkl"},
    "extracted": "legacy.pth",
}
"""Names of files that decide how they are written; others are ``w.pth``."""


def places_of(name):
    """Place, kind and forms of all that a layout has."""
    for place, _, what in (each.partition("=") for each in LAYOUTS[name].split()):
        kind, *forms = what.split(":")
        yield place, kind, forms


def prefixes_of(name):
    """Prefix of the network that is to be read, and those of its copies."""
    found = {"TW": [], "twox": []}
    for place, kind, _ in places_of(name):
        for kinds, prefixes in found.items():
            if kind in [*kinds]:
                prefixes.append(place.replace("/", ".").replace("_orig_mod.", ""))
    return *found["TW"], *found["twox"]


def content_of(name, trunk):
    """What a project saves."""
    content = {}
    for place, kind, forms in places_of(name):
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


def moco(trunk):
    return content_of("moco", trunk)


def write_layout(name, trunk, folder):
    return save(content_of(name, trunk), folder / FILES.get(name, "w.pth"))


def save(content, path, *, protocol=4):
    """Write a ``.pkl`` with pickle, ``.safetensors``, or anything else with torch."""
    if path.suffix == ".pkl":
        path.write_bytes(pickle.dumps(content, protocol=protocol))
    elif path.suffix == ".safetensors":
        save_file(content, path)
    else:
        torch.save(content, path, _use_new_zipfile_serialization="legacy" not in path.name)
    return path
