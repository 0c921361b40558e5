"""What every target of an export consists of, and which ResNets it can hold.

Legend: N images, C features, H, W height and width of the last feature map; (N, C) for backbones
that pool themselves.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmpretrain.models import ResNet
from mmpretrain.models.backbones.resnet import get_expansion
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ...errors import UserValueError
from ...functional.pooling import pool
from ...pixels import Pixels

Features = tuple[Tensor, Tensor]
"""The last feature map (N, C, H, W) or (N, C), and the pooled features (N, C)."""


@dataclass(frozen=True)
class Exported:
    """What is exported."""

    backbone: Any  # of mmpretrain, in eval mode and filled from the checkpoint
    cfg: Config
    state: Mapping[str, Tensor]  # to write, by our names: the backbone's or the whole model's

    @property
    def in_channels(self) -> int:
        """Channels of the images."""
        spec, own = self.cfg.model.backbone, Pixels.of_config(self.cfg) or Pixels(3, "uint8")
        return spec.get("in_channels") or (spec.get("options") or {}).get("in_chans", own.channels)

    @property
    def is_resnet(self) -> bool:
        """Whether it is convolutional through and through, so that image sizes are free."""
        return isinstance(self.backbone, ResNet)

    @property
    def architecture(self) -> str:
        """Type of the backbone, with the depth of a ResNet: ``ResNet-50``; or timm's name."""
        depth = getattr(self.backbone, "depth", None)
        name = getattr(self.backbone, "model_name", type(self.backbone).__name__)
        return f"{name}-{depth}" if isinstance(depth, int) else name


@dataclass(frozen=True)
class Loaded:
    """A written file, read back into the model that it is meant for."""

    model: str
    run: Callable[[Tensor], Features]  # of images (N, in_channels, H, W)
    file: Mapping[str, Tensor] | None  # the file's tensors; None where it has no names
    state: Mapping[str, Tensor] | None  # the model's after loading, by the file's names
    notes: tuple[str, ...] = ()


def last_and_pooled(model: nn.Module) -> Callable[[Tensor], Features]:
    """Run an OpenMMLab backbone: its last output, and that pooled as in training."""

    def run(images: Tensor) -> Features:
        outputs = model(images)
        last = outputs if isinstance(outputs, Tensor) else outputs[-1]
        return last, pool(last)

    return run


@dataclass(frozen=True)
class ExportTarget:
    """A format that others read; without the reader's package ``load`` takes our own model."""

    name: str  # as users type it
    suffixes: tuple[str, ...]  # the default first
    write: Callable[[Exported, Path], None]
    load: Callable[[Path, Exported], Loaded]
    wanted: Mapping[str, Any] | None = None  # see ``check_resnet``; None takes every backbone
    own: tuple[type[nn.Module], ...] = ()  # backbones that hold the target's own networks
    rename: Callable[[str], str | None] = lambda name: name  # to the file's; None is left out
    tolerance: float = 1e-5  # of float32 sums in another order, relative to the largest feature
    outputs: tuple[str, str] = ("feature map differs", "pooled features differ")  # as compared
    ours: Callable[[Exported], Callable[[Tensor], Features]] = lambda source: last_and_pooled(
        source.backbone
    )  # what they must equal


def check_resnet(source: Exported, wanted: Mapping[str, Any], target: str) -> None:
    """Raise ValueError for what is no ResNet with the values of ``wanted``, cut to its stages."""
    backbone = source.backbone
    # Its subclasses have the same fields and other blocks, stems or names.
    if type(backbone) is not ResNet:
        raise UserValueError(
            f"target {target} must get a ResNet, but the backbone of {source.cfg.filename} is "
            f"a {type(backbone).__name__}; export it to backbone, safetensors or onnx."
        )
    norm = next(m for m in backbone.layer1[-1].children() if "Norm" in type(m).__name__)
    kind = "BatchNorm" if isinstance(norm, _BatchNorm) else type(norm).__name__
    others = {"in_channels": source.in_channels, "norm": f"{kind} with eps={norm.eps}"}
    wanted = {**wanted, "expansion": get_expansion(ResNet.arch_settings[backbone.depth][0])}
    wrong = {}
    for name, value in wanted.items():
        found: Any = others[name] if name in others else getattr(backbone, name)
        if isinstance(value, tuple):
            value, found = value[: backbone.num_stages], tuple(found)
        if found != value:
            wrong[name] = (value, found)
    if wrong:
        values, found = (
            ", ".join(f"{name}={pair[i]!r}" for name, pair in wrong.items()) for i in (0, 1)
        )
        raise UserValueError(
            f"target {target} must get a ResNet with {values}, but the backbone of "
            f"{source.cfg.filename} has {found}; export it to backbone, safetensors or onnx."
        )


def imported(module: str, spec: str) -> tuple[Any, tuple[str, ...]]:
    """Import a module of another package; or return None, and the note that it was not tried."""
    try:
        return importlib.import_module(module), ()
    except ImportError as error:  # also a package that was built for another torch
        package = module.partition(".")[0]
        why = f"{package} cannot be imported ({error})"
        return None, (f"{why}: its own model was not tried; pip install {spec}",)
