"""The formats of an export, and how each file is read back into the network that it is for.

Legend: N images, C features, H, W height and width of the last feature map; (N, C) for backbones
that pool themselves.
"""

import inspect
import json
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torchvision
from mmengine.config import Config
from mmpretrain.models import ResNet
from mmpretrain.models.backbones.resnet import get_expansion
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..errors import UserValueError
from ..functional.pooling import pool
from ..models import PyramidPreprocessor
from ..pixels import Pixels
from ..pyramid import ViewLayout
from ..system.outputs import whole_file
from .backbone import load_backbone
from .checkpoint_file import read_checkpoint
from .names import to_detectron2

Features = tuple[Tensor, Tensor]
"""The last feature map (N, C, H, W) or (N, C), and the pooled features (N, C)."""

_DETECTRON2 = {
    "deep_stem": False,
    "avg_down": False,
    "in_channels": 3,
    "style": "pytorch",
    "dilations": (1, 1, 1, 1),
    "strides": (1, 2, 2, 2),
    "norm": "BatchNorm with eps=1e-05",
}
"""What detectron2 builds, at any width; up to four stages."""
_TORCHVISION = {"stem_channels": 64, "base_channels": 64, "num_stages": 4, **_DETECTRON2}
"""What torchvision and timm build."""


@dataclass(frozen=True)
class Exported:
    """What is exported."""

    backbone: Any  # of mmpretrain, in eval mode and filled from the checkpoint
    cfg: Config
    state: Mapping[str, Tensor]  # to write, by our names

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
    def image_px(self) -> tuple[int, int]:
        """Height and width that the backbone was built for, or those of the image views, or 224."""
        layout = self.cfg.model.get("layout")
        usual = [ViewLayout.build(layout).image_px if layout else 224] * 2
        size = getattr(self.backbone, "img_size", usual)
        return int(size[0]), int(size[1])

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
    note: str = ""


@dataclass(frozen=True)
class ExportTarget:
    """A format that others read."""

    suffix: str
    write: Callable[[Exported, Path], None]
    load: Callable[[Path, Exported], Loaded]
    check: Callable[[Exported], None] = lambda source: None
    tolerance: float = 1e-5  # of float32 sums in another order, relative to the largest feature


def last_and_pooled(model: nn.Module) -> Callable[[Tensor], Features]:
    """Run an OpenMMLab backbone: its last output, and that pooled as in training."""

    def run(images: Tensor) -> Features:
        outputs = model(images)
        last = outputs if isinstance(outputs, Tensor) else outputs[-1]
        return last, pool(last)

    return run


def write_state(source: Exported, path: Path) -> None:
    """Write a state dict as ``torch.save`` does, or as safetensors with the backbone's config."""
    # Copies in plain memory order: safetensors takes no shared and no channels-last tensors.
    state = {
        name: value.detach().clone(memory_format=torch.contiguous_format)
        for name, value in source.state.items()
    }
    with whole_file(path, "wb") as file:
        if path.suffix != ".safetensors":
            torch.save(state, file)
            return
        architecture = json.dumps(source.cfg.model.backbone.to_dict(), default=str)
        # Not save_file: its files can be read by their owner alone.
        file.write(save(state, {"format": "pt", "architecture": architecture}))


def load_own(path: Path, source: Exported) -> Loaded:
    """Read a file of backbone weights into the mmpretrain backbone, all of it."""
    run = last_and_pooled(load_backbone(str(path), source.cfg))
    return Loaded(f"mmpretrain {source.architecture}", run)


def load_pth(path: Path, source: Exported) -> Loaded:
    """Read the file into torchvision's ResNet if the backbone is one, else into our own."""
    if not source.is_resnet or find_difference(source, _TORCHVISION):
        return load_own(path, source)
    name = f"resnet{source.backbone.depth}"
    model = getattr(torchvision.models, name)(weights=None)
    model.fc = nn.Identity()
    model.load_state_dict(read_checkpoint(path))
    model.eval()
    trunk = nn.Sequential(*list(model.children())[:-2])  # without avgpool and fc

    def run(images: Tensor) -> Features:
        return trunk(images), model(images)

    note = f"torchvision.models.{name}().load_state_dict(torch.load(FILE), strict=False); timm, "
    note += "mmpretrain, mmdet and mmseg read it, too."
    return Loaded(f"torchvision {name}", run, note)


def write_detectron2(source: Exported, path: Path) -> None:
    """Write the form that detectron2's checkpointer takes for self-supervised weights."""
    state = source.state.items()
    model = {theirs: value.numpy() for ours, value in state if (theirs := to_detectron2(ours))}
    content = {"model": model, "__author__": "mmssprl", "matching_heuristics": True}
    with path.open("wb") as file:
        pickle.dump(content, file, protocol=4)


def load_detectron2(path: Path, source: Exported) -> Loaded:
    """Read the file by the inverse table into mmpretrain's ResNet."""
    run = last_and_pooled(load_backbone(str(path), source.cfg))
    note = "In detectron2: " + ", ".join(f"{k} {v!r}" for k, v in _settings(source).items())
    return Loaded(f"mmpretrain {source.architecture}, names mapped back", run, note)


def _settings(source: Exported) -> dict[str, Any]:
    """The keys of detectron2's config that belong to the weights."""
    backbone = source.backbone
    base = backbone.base_channels
    given = source.cfg.model.get("data_preprocessor") or {}
    defaults = inspect.signature(PyramidPreprocessor).parameters
    mean, std = (list(given.get(name, defaults[name].default)) for name in ("mean", "std"))
    return {
        "INPUT.FORMAT": "RGB",
        "MODEL.PIXEL_MEAN": mean,
        "MODEL.PIXEL_STD": std,
        "MODEL.RESNETS.DEPTH": backbone.depth,
        "MODEL.RESNETS.STEM_OUT_CHANNELS": backbone.stem_channels,
        "MODEL.RESNETS.RES2_OUT_CHANNELS": base * backbone.expansion,
        "MODEL.RESNETS.WIDTH_PER_GROUP": base,
        "MODEL.RESNETS.STRIDE_IN_1X1": False,
        "MODEL.RESNETS.NORM": "SyncBN",
        "MODEL.BACKBONE.FREEZE_AT": 0,
    }


def check_detectron2(source: Exported) -> None:
    """Raise ValueError for what is no ResNet of detectron2."""
    if wrong := find_difference(source, _DETECTRON2):
        raise UserValueError(
            f"target detectron2 must get a plain ResNet, but the backbone of {source.cfg.filename} "
            f"has {wrong}; export it to pth, safetensors or onnx."
        )


def find_difference(source: Exported, wanted: Mapping[str, Any]) -> str:
    """Say what keeps a backbone from being a ResNet of ``wanted``; '' where it is one."""
    backbone = source.backbone
    # Subclasses have the same fields and other blocks, stems or names.
    if type(backbone) is not ResNet:
        return f"the blocks of {type(backbone).__name__}"
    norm = next(m for m in backbone.layer1[-1].children() if "Norm" in type(m).__name__)
    kind = "BatchNorm" if isinstance(norm, _BatchNorm) else type(norm).__name__
    own: dict[str, Any] = {name: getattr(backbone, name, None) for name in wanted}
    own |= {"in_channels": source.in_channels, "norm": f"{kind} with eps={norm.eps}"}
    own["expansion"] = backbone.expansion
    wanted = {**wanted, "expansion": get_expansion(ResNet.arch_settings[backbone.depth][0])}
    for name in ("strides", "dilations"):
        own[name], wanted[name] = tuple(own[name]), wanted[name][: backbone.num_stages]
    return ", ".join(f"{name}={own[name]!r}" for name in wanted if own[name] != wanted[name])
