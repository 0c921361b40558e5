"""Build backbones from configs and load their weights."""

import re
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.logging import print_log
from mmengine.registry import DefaultScope
from mmpretrain.models import ResNet
from mmpretrain.models.backbones.resnet import Bottleneck
from torch import Tensor, nn

from ..config.hooks import is_named
from ..config.reading import read_config_file
from ..console.quiet import quiet
from ..errors import UserValueError
from ..models import ModuleBackbone
from ..models.timm_backbone import check_timm
from ..pixels import Normalisation
from ..registry import MODELS, registered_name
from .architecture import architecture_of
from .checkpoint_file import check_fit, read_state, say_once
from .checkpoint_prefixes import find_network, read_backbone, require_finite
from .description import find_description, read_description
from .downloads import supervised_state, timm_state
from .names import DETECTRON2_STEM
from .normalisation import find_normalisation, says_normalisation, warn_of_description
from .sources import SUPERVISED, Source, timm_model, timm_network, weights_file
from .stored_config import has_caffe_style

_DEPTHS = {
    (block is Bottleneck, blocks): depth for depth, (block, blocks) in ResNet.arch_settings.items()
}
"""Depth of a ResNet by (whether it has bottlenecks, blocks per stage)."""
_USUAL_WIDTH = 64
_HAS_STYLE = "layer1.0.conv3.weight"
"""A tensor of ResNets with bottlenecks. The style of others has no effect."""


def find_config(weights: str, config: str | None) -> Config:
    """Read the config of a backbone from ``config``, or from ``NAME.json`` next to the weights.

    Without either, the depth and width of a ResNet are read from its tensors, ``'supervised'`` is a
    ResNet-50, and timm/NAME and package.module:function name their networks. A config that says
    nothing of its images gets the normalisation of ``find_normalisation``. Raises ValueError for a
    file without weights or an unknown architecture.
    """
    cfg = _find_config(weights, config)
    if config is not None and says_normalisation(cfg):
        warn_of_description(cfg, weights)
        return cfg

    own = find_normalisation(weights, cfg.model.backbone)
    if not own.equals(Normalisation.of_config(cfg)):
        cfg.model.data_preprocessor = own.numbers
    return cfg


def _find_config(weights: str, config: str | None) -> Config:
    source = Source.of(weights)
    if config is not None:
        if not (source.is_random or source.is_supervised or source.network):
            read_state(weights)  # raises if the file is damaged
        return _given_config(config)

    if source.is_random:
        raise UserValueError("random weights need a config with the architecture; give one.")
    if source.is_supervised:
        return Config({"model": {"backbone": {"type": "ResNet", "depth": 50}}})
    if source.function:
        network = {"type": "ModuleBackbone", "network": source.function}
        return Config({"model": {"backbone": network}})
    if source.timm:
        return _config_of_timm(timm_model(source.timm))
    return _config_of_file(weights_file(weights))


def _given_config(config: str) -> Config:
    """Read the config of a backbone that the user gave."""
    cfg = read_config_file(config)
    model = cfg.get("model")
    backbone = model.get("backbone") if isinstance(model, Mapping) else None
    if not isinstance(backbone, Mapping) or "type" not in backbone:
        raise UserValueError(
            f"{cfg.filename} has no model.backbone; give a config that describes one."
        )
    return cfg


def _config_of_file(path: Path) -> Config:
    """Read the description next to a file, or the depth and width of a ResNet from its tensors."""
    state = read_state(path)  # raises if the file is damaged
    if description := find_description(path):
        require_finite(state, path)
        print_log(f"{path}: backbone read from {description.name}.")
        return read_description(description)

    network = find_network(path)
    remedy = "give the config of their training by --config."
    backbone = read_architecture(network.tensors, path, remedy)
    more = ""
    if any(key.endswith(DETECTRON2_STEM) for key in state):
        more = " detectron2's own networks have BGR images, other numbers and style 'caffe'."
    print_log(
        f"{path} has no description {path.stem}.json: read as a ResNet-{backbone['depth']} for "
        f"8-bit RGB images; give --config if that is wrong.{more}"
    )
    return Config({"model": {"backbone": backbone}})


def _config_of_timm(name: str) -> Config:
    """Return the config of timm's network, for images of any size if it takes them."""
    check_timm(name)
    import timm

    backbone: dict[str, Any] = {"type": "TimmBackbone", "model_name": name}
    try:
        with torch.device("meta"):
            timm.create_model(name, dynamic_img_size=True)
        backbone["options"] = {"dynamic_img_size": True}
    except TypeError:  # this network has no such argument
        pass
    return Config({"model": {"backbone": backbone}})


def read_architecture(trunk: Mapping[str, Tensor], file: str | Path, remedy: str) -> dict[str, Any]:
    """Return mmpretrain's config of a ResNet from its tensors under torchvision's names."""
    last_blocks: dict[int, int] = {}
    for key in trunk:
        if found := re.match(r"layer(\d+)\.(\d+)\.", key):
            stage, block = map(int, found.groups())
            last_blocks[stage] = max(block, last_blocks.get(stage, 0))
    blocks = tuple(1 + block for _, block in sorted(last_blocks.items()))
    has_bottlenecks = any(key.endswith(".conv3.weight") for key in trunk)
    if (has_bottlenecks, blocks) not in _DEPTHS:
        kind = "bottleneck" if has_bottlenecks else "basic"
        shown = f"{kind} blocks, {blocks} per stage" if blocks else ", ".join(list(trunk)[:3])
        look = None if blocks else architecture_of(trunk)
        if look is not None:
            shown = str(look)
            named = f"{timm_network(look.timm_name or 'NAME')}:{file}"
            remedy = f"give {named}{'' if look.timm_name else ' if timm has it'}, or {remedy}"
        raise UserValueError(
            "the backbone must be a ResNet of depth 18, 34, 50, 101 or 152, but the keys of "
            f"{file} show {shown}; {remedy}"
        )

    config: dict[str, Any] = {"type": "ResNet", "depth": _DEPTHS[has_bottlenecks, blocks]}
    widths = {"stem_channels": "conv1.weight", "base_channels": "layer1.0.conv1.weight"}
    for setting, key in widths.items():
        # The strict load reports a missing tensor.
        width = trunk[key].shape[:1].numel() if key in trunk else _USUAL_WIDTH
        if width != _USUAL_WIDTH:
            config[setting] = width
    if has_bottlenecks and has_caffe_style(Path(file)):
        config["style"] = "caffe"
    return config


def build_backbone(cfg: Config, *, scope: str = "mmssprl") -> Any:
    """Build ``cfg.model.backbone`` without its ``init_cfg``, in a registry's scope."""
    spec = cfg.model.backbone.to_dict()
    spec.pop("init_cfg", None)
    return build_model(spec, scope=scope)


def build_model(spec: Mapping[str, Any], *, scope: str = "mmssprl") -> Any:
    """Build a model, or a part of one, from its config, without printing anything."""
    with quiet(), DefaultScope.overwrite_default_scope(scope):
        return MODELS.build(dict(spec))


def load_network(weights: str, cfg: Config, *, seed: int = 0) -> nn.Module:
    """Build ``cfg.model.backbone`` in eval mode on the CPU, and load all of its weights.

    ``weights`` is a file of a backbone or a training checkpoint, ``'random'`` (drawn by ``seed``),
    ``'supervised'``, timm/NAME or timm/NAME:FILE, or the package.module:function that makes the
    backbone. Raises ValueError if they do not fit or are not finite.
    """
    own = cfg.model.backbone
    source = Source.of(weights)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = build_backbone(cfg)
        if source.is_random:
            with quiet():
                backbone.init_weights()

    if source.is_supervised and not is_named(own, "ResNet"):
        raise UserValueError(
            f"'{SUPERVISED}' weights exist only for a ResNet, but the backbone of "
            f"{cfg.filename} is a {registered_name(own.type, MODELS)}; leave '{SUPERVISED}' out."
        )
    comes_with_weights = weights == own.get("network")  # of a function
    if not (source.is_random or comes_with_weights):
        expected = backbone.state_dict()
        state = start_state(weights, own.get("depth", 50), expected)
        check_fit(
            state,
            expected,
            weights=weights,
            owner=str(cfg.filename or own.get("model_name", f"mmpretrain's {own.type}")),
            remedy="give the config or the network that they were trained with.",
        )
        if needs_caffe_style(weights, own, expected):
            say_once(
                f"warning: {source.file} is of a ResNet of style 'caffe', but "
                f"{cfg.filename or 'its config'} has its strides in other convolutions. The config "
                "is followed; set style='caffe' in its backbone to follow the file."
            )
        backbone.load_state_dict(state, strict=False)
    # mmpretrain's train() returns nothing, so eval() does not chain.
    backbone.eval()
    return backbone


def needs_caffe_style(weights: str, own: Mapping[str, Any], names: Container[str]) -> bool:
    """Whether weights are of a ResNet of style 'caffe', and the network that takes them is not.

    Args:
        weights: WEIGHTS.
        own: Config of the network.
        names: Names of its tensors.

    Raises:
        ValueError: The network is of timm or of a function, and has no style.
    """
    file = Source.of(weights).file
    if not file or own.get("style") == "caffe" or _HAS_STYLE not in names:
        return False
    if not has_caffe_style(weights_file(file)):
        return False

    name = own.get("model_name") or own.get("network")
    if name:
        raise UserValueError(
            f"{file} is of a ResNet of style 'caffe', but {name} has its strides in other "
            "convolutions; give the file without timm/ or --backbone."
        )
    return True


def start_state(
    weights: str, depth: int = 50, wanted: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """Return the weights of a file, 'supervised' at a depth, timm/NAME[:FILE], or a function.

    ``wanted`` is the backbone's state dict, as in ``read_backbone``.
    """
    source = Source.of(weights)
    if source.is_supervised:
        return supervised_state(depth)
    if source.function:
        return dict(ModuleBackbone(source.function).state_dict())
    if source.timm and not source.file:
        return timm_state(source.timm)
    return read_backbone(source.file or weights, wanted)
