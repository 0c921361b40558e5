"""Backbones from configs, filled from the files that training leaves behind."""

import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.logging import print_log
from mmengine.registry import DefaultScope
from mmpretrain.models import ResNet
from mmpretrain.models.backbones.resnet import Bottleneck
from torch import Tensor, nn
from torchvision.models import get_model_weights, list_models

from ..config.reading import one_line, read_config_file
from ..console.quiet import quiet
from ..errors import UserOSError, UserValueError
from ..models.timm_backbone import check_timm
from ..registry import MODELS
from .branches import read_backbone, read_branch, require_finite
from .checkpoint_file import check_fit, read_state, weights_file
from .description import find_description, read_description

RANDOM = "random"
"""Stands for a weights file: the backbone as its ``init_weights`` leaves it."""
SUPERVISED = "supervised"
"""Stands for a weights file: torchvision's ResNet, trained on ImageNet (IMAGENET1K_V1)."""
OWN = "own"
"""Stands for a weights file: those that a network of the user's own has already."""
TIMM = "timm/"
"""What the name of a network of timm begins with, and of its own weights."""
_DEPTHS = {
    (block is Bottleneck, blocks): depth for depth, (block, blocks) in ResNet.arch_settings.items()
}
"""Depth of a ResNet by whether its blocks are bottlenecks, and their number per stage."""
_USUAL_WIDTH = 64


def find_config(weights: str, config: str | None) -> Config:
    """Read the config of a backbone: ``config``, or what ``NAME.json`` beside the weights says.

    Without either a ResNet is known by its tensors, and ``'supervised'`` is a ResNet-50. Raises
    ValueError for a file without weights, or a network that nothing tells; FileNotFoundError.
    """
    if config is None and weights == RANDOM:
        raise UserValueError(
            "config must say the architecture to draw random weights for, but got none; give one."
        )
    if config is None and weights == SUPERVISED:
        return Config({"model": {"backbone": {"type": "ResNet", "depth": 50}}})
    path = Path(weights)
    if weights not in (RANDOM, SUPERVISED):
        path = weights_file(weights)
        state = read_state(path)  # says what is wrong with the file
    if config is not None:
        return _with_backbone(read_config_file(config))
    if description := find_description(path):
        require_finite(state, path)
        print_log(f"{path}: backbone read from {description.name}.")
        return read_description(description)
    branch = read_branch(path)
    remedy = "give the config of their training by --config."
    backbone = read_architecture(branch.tensors, path, remedy)
    print_log(
        f"{path} has no {path.stem}.json: it holds a ResNet-{backbone['depth']}, read as RGB of "
        "8 bits; --config says otherwise."
    )
    return Config({"model": {"backbone": backbone}})


def read_architecture(trunk: Mapping[str, Tensor], file: str | Path, remedy: str) -> dict[str, Any]:
    """Read mmpretrain's ResNet config off tensors under torchvision's names, of ``file``."""
    found = [match for key in trunk if (match := re.match(r"layer(\d+)\.(\d+)\.", key))]
    stages = {int(match[1]) for match in found}
    blocks = tuple(
        1 + max(int(match[2]) for match in found if int(match[1]) == stage)
        for stage in sorted(stages)
    )
    has_bottlenecks = any(key.endswith(".conv3.weight") for key in trunk)
    kind = "bottleneck" if has_bottlenecks else "basic"
    if (has_bottlenecks, blocks) not in _DEPTHS:
        shown = f"{kind} blocks, {blocks} per stage" if blocks else f"{', '.join(list(trunk)[:3])}"
        raise UserValueError(
            "the backbone must be a ResNet of depth 18, 34, 50, 101 or 152, but the keys of "
            f"{file} show {shown}; {remedy}"
        )
    config: dict[str, Any] = {"type": "ResNet", "depth": _DEPTHS[has_bottlenecks, blocks]}
    for setting, key in (
        ("stem_channels", "conv1.weight"),
        ("base_channels", "layer1.0.conv1.weight"),
    ):
        # A missing tensor is told by the strict load, with all others that are missing.
        width = trunk[key].shape[:1].numel() if key in trunk else _USUAL_WIDTH
        if width != _USUAL_WIDTH:
            config[setting] = width
    return config


def _with_backbone(cfg: Config) -> Config:
    model = cfg.get("model")
    backbone = model.get("backbone") if isinstance(model, Mapping) else None
    if not isinstance(backbone, Mapping) or "type" not in backbone:
        raise UserValueError(
            "a config must describe its backbone under model.backbone, but "
            f"{cfg.filename} does not."
        )
    return cfg


def build_backbone(cfg: Config, *, scope: str = "mmssprl") -> Any:
    """Build ``cfg.model.backbone`` without its ``init_cfg``, in silence, in a registry's scope."""
    spec = cfg.model.backbone.to_dict()
    spec.pop("init_cfg", None)
    return build_model(spec, scope=scope)


def build_model(spec: Mapping[str, Any], *, scope: str = "mmssprl") -> Any:
    """Build a model, or a part of one, from its config, in silence."""
    with quiet(), DefaultScope.overwrite_default_scope(scope):
        return MODELS.build(dict(spec))


def load_network(weights: str, cfg: Config, *, seed: int = 0) -> nn.Module:
    """Build ``cfg.model.backbone`` and fill it with weights, all of them or none.

    ``weights`` is a file of a backbone or of a training, ``'random'`` by ``seed``, or
    ``'supervised'``. The result is in eval mode on the CPU. Raises ValueError for weights that do
    not fit, or are not finite.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = build_backbone(cfg)
        if weights == RANDOM:
            with quiet():
                backbone.init_weights()
    if weights != RANDOM:
        if weights == SUPERVISED and cfg.model.backbone.type != "ResNet":
            raise UserValueError(
                f"'{SUPERVISED}' weights exist for a ResNet, but the backbone of {cfg.filename} is "
                f"a {cfg.model.backbone.type}; leave '{SUPERVISED}' out, or use another command."
            )
        depth = cfg.model.backbone.get("depth", 50)
        state = start_state(weights, depth, backbone.state_dict())
        check_fit(
            state,
            backbone.state_dict(),
            weights=weights,
            owner=str(cfg.filename or f"mmpretrain's {cfg.model.backbone.type}"),
            remedy="give config, that of the network they were trained in.",
        )
        backbone.load_state_dict(state, strict=False)
    # mmpretrain's train() returns nothing, so eval() does not chain.
    backbone.eval()
    return backbone


def has_supervised(depth: int) -> bool:
    """Whether torchvision's weights of a ResNet are in torch's cache, with nothing to download."""
    name = f"resnet{depth}"
    return name in list_models() and (_cache() / Path(_entry(name).url).name).is_file()


def supervised_state(depth: int) -> dict[str, Tensor]:
    """Return torchvision's weights of a ResNet trained on ImageNet, without the classifier.

    They are downloaded once into torch's own cache, with a progress bar, and checked.
    """
    name = f"resnet{depth}"
    if name not in list_models():
        raise UserValueError(
            f"supervised weights exist for torchvision's ResNets, but there is no {name}; "
            "give a file or 'random'."
        )
    entry = _entry(name)
    try:
        state = entry.get_state_dict(progress=True, check_hash=True, weights_only=True)
    except (OSError, pickle.UnpicklingError, EOFError, RuntimeError) as error:
        raise UserOSError(
            f"the supervised weights can neither be read from {_cache()} nor downloaded "
            f"({one_line(error)}); delete what is there, and put {entry.url} there."
        ) from error
    return {key: value for key, value in state.items() if not key.startswith("fc.")}


def start_state(
    weights: str, depth: int = 50, wanted: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """Return what a training starts from: a file, 'supervised' of a depth, or timm/NAME.

    ``wanted`` is the backbone's state dict, as for ``read_backbone``. timm's own cache is used.
    """
    if weights == SUPERVISED:
        return supervised_state(depth)
    if not weights.startswith(TIMM):
        return read_backbone(weights, wanted)
    name = weights.removeprefix(TIMM)
    check_timm(name)
    import timm

    try:
        network = timm.create_model(name, pretrained=True, num_classes=0)
    except Exception as error:  # of a hub, of a network, or of timm where it has no weights
        raise UserOSError(
            f"the weights of {weights} are neither in the cache of its hub nor can they be "
            f"downloaded ({one_line(error)}); give the file: {weights}:FILE."
        ) from error
    return dict(network.state_dict())


def _entry(name: str) -> Any:
    return get_model_weights(name)["IMAGENET1K_V1"]


def _cache() -> Path:
    return Path(torch.hub.get_dir()) / "checkpoints"
