"""torchvision, timm, mmdet and mmseg: the names are ours already, the models are theirs."""

import importlib
from pathlib import Path
from typing import Any

import torchvision
from torch import Tensor, nn

from ..._dependencies import (
    OFFICIAL,
    ONEDL,
    distribution,
    installed_version,
    is_importable,
    what_to_install,
)
from ...models import TimmBackbone
from ..backbone import quiet
from ..checkpoint_file import read_state
from .plain import load_own
from .target import Features, Loaded, Source, last_and_pooled

CLASSIFIER = ("fc.weight", "fc.bias")
# Taken from the built backbone, because the three packages' defaults differ.
_SHARED_FIELDS = (
    *("depth", "stem_channels", "base_channels", "num_stages", "strides", "dilations"),
    *("out_indices", "style", "avg_down", "conv_cfg", "norm_cfg"),
)


def load_torchvision(path: Path, source: Source) -> Loaded:
    """Read the file into torchvision's ResNet; only its classifier stays as it was."""
    name = f"resnet{source.backbone.depth}"
    model = getattr(torchvision.models, name)(weights=None)
    file = read_state(path)
    model.load_state_dict(file, strict=False)
    model.eval()
    trunk = nn.Sequential(*list(model.children())[:-2])  # without avgpool and fc

    def run(images: Tensor) -> Features:
        last = trunk(images)  # (N, C, H, W)
        return last, model.avgpool(last).flatten(1)

    note = f"torchvision.models.{name}().load_state_dict(torch.load(FILE), strict=False)"
    return Loaded(f"torchvision {name}", run, file, model.state_dict(), (note,))


def load_timm(path: Path, source: Source) -> Loaded:
    """Read the file into timm's network without its classifier, through timm's own reader."""
    if not is_importable("timm"):
        return load_own(path, source, not_installed("timm", "timm"))
    import timm

    backbone = source.backbone
    is_own = isinstance(backbone, TimmBackbone)
    name = backbone.model_name if is_own else f"resnet{backbone.depth}"
    model: Any = timm.create_model(name, num_classes=0, checkpoint_path=str(path)).eval()

    def run(images: Tensor) -> Features:
        last = model.forward_features(images)
        pooled = model.forward_head(last)
        gives_map = not is_own or backbone.out_type == "featmap"
        return last if gives_map else pooled, pooled

    note = f"timm.create_model('{name}', num_classes=0, checkpoint_path=FILE)"
    return Loaded(f"timm {name}", run, read_state(path), model.state_dict(), (note,))


def load_mmdet(path: Path, source: Source) -> Loaded:
    """Read the file into mmdet's ResNet, as ``init_cfg`` of a detector's backbone does."""
    note = (
        f"In the detector's backbone, {_fields(source)}: "
        "init_cfg=dict(type='Pretrained', checkpoint=FILE), frozen_stages=-1, norm_eval=False, "
        "norm_cfg=dict(type='SyncBN', requires_grad=True); mmdet's defaults freeze "
        "a stage and all statistics."
    )
    return _load_openmmlab("mmdet", path, source, note)


def load_mmseg(path: Path, source: Source) -> Loaded:
    """Read the file into mmseg's ResNet in the strides of pre-training."""
    note = (
        f"In the segmentor's backbone, {_fields(source)}: "
        "init_cfg=dict(type='Pretrained', checkpoint=FILE). Features are equal in the strides "
        "of pre-training; dilated stages (output stride 8 or 16) take the same weights and give "
        "other features."
    )
    return _load_openmmlab("mmseg", path, source, note)


def not_installed(module: str, spec: str, reason: str = "is not installed") -> str:
    """Say that a package was not there to try the file."""
    return f"{module} {reason}: its own model was not tried; pip install {spec}"


def _load_openmmlab(package: str, path: Path, source: Source, note: str) -> Loaded:
    family = ONEDL if installed_version(distribution(ONEDL["mmengine"])) else OFFICIAL
    spec = f"'{what_to_install(family[package])}'"
    if not is_importable(package):
        return load_own(path, source, not_installed(package, spec), note)
    try:
        module = importlib.import_module(f"{package}.models.backbones.resnet")
    except ImportError as error:  # a mmcv compiled for another torch
        why = not_installed(package, spec, f"cannot be imported ({error})")
        return load_own(path, source, why, note)
    fields = {name: getattr(source.backbone, name) for name in _SHARED_FIELDS}
    with quiet():
        model = module.ResNet(
            **fields,
            in_channels=source.in_channels,
            frozen_stages=-1,
            norm_eval=False,
            init_cfg={"type": "Pretrained", "checkpoint": str(path)},
        )
        model.init_weights()
    model.eval()
    return Loaded(
        f"{package} {source.architecture}",
        last_and_pooled(model),
        read_state(path),
        model.state_dict(),
        (note,),
    )


def _fields(source: Source) -> str:
    """What must be written out: mmdet's stem is as wide as its first stage unless told."""
    names = ("depth", "stem_channels", "base_channels", "num_stages", "strides")
    return ", ".join(f"{name}={getattr(source.backbone, name)!r}" for name in names)
