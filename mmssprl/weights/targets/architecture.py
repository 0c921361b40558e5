"""Which backbones a target can hold, told from the built backbone, not from its config."""

from collections.abc import Iterable, Mapping
from typing import Any

from mmpretrain.models import ResNet
from mmpretrain.models.backbones.resnet import get_expansion
from torch.nn.modules.batchnorm import _BatchNorm

from ...errors import UserValueError
from .target import Source

_ANY = "backbone, safetensors or onnx"
_ANY_RESNET = "backbone, safetensors, onnx, mmdet or mmseg"

PLAIN: Mapping[str, Any] = {"deep_stem": False}
"""What tensors are named alike for in mmpretrain, mmdet and mmseg."""

STRAIGHT: Mapping[str, Any] = {
    **PLAIN,
    "avg_down": False,
    "in_channels": 3,
    "style": "pytorch",
    "dilations": (1, 1, 1, 1),
    "strides": (1, 2, 2, 2),
    "norm": "BatchNorm with eps=1e-05",
}
"""What detectron2 builds, at any width; up to four stages."""

STANDARD: Mapping[str, Any] = {
    **{"stem_channels": 64, "base_channels": 64, "num_stages": 4},
    **STRAIGHT,
}
"""What torchvision and timm build."""


def check_resnet(source: Source, wanted: Mapping[str, Any], target: str) -> None:
    """Refuse what is no ResNet with the values of ``wanted``.

    Args:
        source: What is exported.
        wanted: Values of the backbone's fields; those per stage are cut to its stages.
        target: Name of the target, for the message.

    Raises:
        ValueError: Another backbone, or a field of another value.
    """
    backbone = source.backbone
    # Its subclasses have the same fields and other blocks, stems or names.
    if type(backbone) is not ResNet:
        raise UserValueError(
            f"target {target} must get a ResNet, but the backbone of {source.cfg.filename} is "
            f"a {type(backbone).__name__}; export it to {_ANY}."
        )
    expansion = get_expansion(ResNet.arch_settings[backbone.depth][0])
    values = {
        name: value[: backbone.num_stages] if isinstance(value, tuple) else value
        for name, value in {**wanted, "expansion": expansion}.items()
    }
    found = _fields(source)
    wrong = [name for name, value in values.items() if found[name] != value]
    if wrong:
        others = _ANY if {"deep_stem", "expansion"} & set(wrong) else _ANY_RESNET
        raise UserValueError(
            f"target {target} must get a ResNet with {_listed(values, wrong)}, but the backbone of "
            f"{source.cfg.filename} has {_listed(found, wrong)}; export it to {others}."
        )


def is_resnet(source: Source) -> bool:
    """Whether the backbone is convolutional through and through, so that image sizes are free."""
    return isinstance(source.backbone, ResNet)


def _fields(source: Source) -> dict[str, Any]:
    backbone = source.backbone
    norm = next(m for m in backbone.layer1[-1].children() if "Norm" in type(m).__name__)
    kind = "BatchNorm" if isinstance(norm, _BatchNorm) else type(norm).__name__
    plain = ("stem_channels", "base_channels", "num_stages", "style", "deep_stem", "avg_down")
    return {
        **{name: getattr(backbone, name) for name in (*plain, "expansion")},
        "strides": tuple(backbone.strides),
        "dilations": tuple(backbone.dilations),
        "in_channels": source.in_channels,
        "norm": f"{kind} with eps={norm.eps}",
    }


def _listed(fields: Mapping[str, Any], names: Iterable[str]) -> str:
    return ", ".join(f"{name}={fields[name]!r}" for name in names)
