"""Files under mmpretrain's own names, and detectron2's."""

import inspect
import json
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torchvision
from safetensors.torch import save
from torch import Tensor, nn

from ..._dependencies import (
    OFFICIAL,
    ONEDL,
    distribution,
    installed_version,
    what_to_install,
)
from ...models import FeatureQueue, PyramidPreprocessor, TimmBackbone
from ...pyramid import ViewLayout
from ...system.outputs import whole_file
from ..backbone import RANDOM, build_model, load_backbone, quiet
from ..checkpoint_file import read_checkpoint, read_state
from ..key_tables import from_detectron2, to_detectron2
from .target import Exported, Features, Loaded, imported, last_and_pooled

# Taken from the built backbone, because the packages' defaults differ.
_SHARED_FIELDS = (
    *("depth", "stem_channels", "base_channels", "num_stages", "strides", "dilations"),
    *("out_indices", "style", "avg_down", "conv_cfg", "norm_cfg"),
)
_TOLD_FIELDS = ("depth", "stem_channels", "base_channels", "num_stages", "strides")
"""What must be written out: mmdet's stem is as wide as its first stage unless told."""
_HOW_TO_GO_ON = (
    "Go on pre-training with it: load_from='FILE' in the config.",
    "Go on pre-training with it: model.load_state_dict(safetensors.torch.load_file('FILE')); "
    "mmengine's load_from takes a .pth.",
)
"""From a file of torch.save, from safetensors."""
_OPENMMLAB_NOTES = {
    "mmdet": "In the detector's backbone, {fields}: init_cfg=dict(type='Pretrained', "
    "checkpoint=FILE), frozen_stages=-1, norm_eval=False, norm_cfg=dict(type='SyncBN', "
    "requires_grad=True); mmdet's defaults freeze a stage and all statistics.",
    "mmseg": "In the segmentor's backbone, {fields}: init_cfg=dict(type='Pretrained', "
    "checkpoint=FILE). Features are equal in the strides of pre-training; dilated stages (output "
    "stride 8 or 16) take the same weights and give other features.",
}


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


def load_own(path: Path, source: Exported, *notes: str) -> Loaded:
    """Read a file of backbone weights into the mmpretrain backbone, all of it."""
    backbone = load_backbone(str(path), source.cfg)
    model = f"mmpretrain {source.architecture}"
    return _loaded(model, last_and_pooled(backbone), path, backbone, *notes)


def load_whole(path: Path, source: Exported) -> Loaded:
    """Read a file of all weights into the algorithm of the config, strictly.

    Queues drop the rows of other ranks, so they are compared in the file alone.
    """
    file = read_state(path)
    with torch.random.fork_rng(devices=[]):
        algorithm = build_model(source.cfg.model)
    algorithm.load_state_dict(dict(file))
    algorithm.eval()
    queues = tuple(
        f"{name}." for name, part in algorithm.named_modules() if isinstance(part, FeatureQueue)
    )
    of_queues = {name: value for name, value in file.items() if name.startswith(queues)}
    return Loaded(
        model=f"mmssprl {type(algorithm).__name__} with {source.architecture}",
        run=last_and_pooled(algorithm.backbone),
        file=file,
        state={**algorithm.state_dict(), **of_queues},
        notes=(_HOW_TO_GO_ON[path.suffix == ".safetensors"],),
    )


def load_torchvision(path: Path, source: Exported) -> Loaded:
    """Read the file into torchvision's ResNet; only its classifier stays as it was."""
    name = f"resnet{source.backbone.depth}"
    model = getattr(torchvision.models, name)(weights=None)
    model.load_state_dict(read_state(path), strict=False)
    model.eval()
    trunk = nn.Sequential(*list(model.children())[:-2])  # without avgpool and fc

    def run(images: Tensor) -> Features:
        last = trunk(images)  # (N, C, H, W)
        return last, model.avgpool(last).flatten(1)

    note = f"torchvision.models.{name}().load_state_dict(torch.load(FILE), strict=False)"
    return _loaded(f"torchvision {name}", run, path, model, note)


def load_timm(path: Path, source: Exported) -> Loaded:
    """Read the file into timm's network without its classifier, through timm's own reader."""
    timm, missing = imported("timm", "timm")
    if missing:
        return load_own(path, source, *missing)
    backbone = source.backbone
    is_own = isinstance(backbone, TimmBackbone)
    name = backbone.model_name if is_own else f"resnet{backbone.depth}"
    options: Any = {"num_classes": 0, "in_chans": source.in_channels}
    model: Any = timm.create_model(name, checkpoint_path=str(path), **options).eval()

    def run(images: Tensor) -> Features:
        last = model.forward_features(images)
        pooled = model.forward_head(last)
        gives_map = not is_own or backbone.out_type == "featmap"
        return last if gives_map else pooled, pooled

    told = "".join(f", {key}={value}" for key, value in options.items() if value != 3)
    note = f"timm.create_model('{name}'{told}, checkpoint_path=FILE)"
    return _loaded(f"timm {name}", run, path, model, note)


def load_openmmlab(path: Path, source: Exported, *, package: str) -> Loaded:
    """Read the file into the ResNet of mmdet or mmseg, as ``init_cfg`` of a backbone does."""
    family = ONEDL if installed_version(distribution(ONEDL["mmengine"])) else OFFICIAL
    spec = f"'{what_to_install(family[package])}'"
    module, missing = imported(f"{package}.models.backbones.resnet", spec)
    told = ", ".join(f"{name}={getattr(source.backbone, name)!r}" for name in _TOLD_FIELDS)
    note = _OPENMMLAB_NOTES[package].format(fields=told)
    if missing:
        return load_own(path, source, *missing, note)
    with quiet():
        model = module.ResNet(
            **{name: getattr(source.backbone, name) for name in _SHARED_FIELDS},
            in_channels=source.in_channels,
            frozen_stages=-1,
            norm_eval=False,
            init_cfg={"type": "Pretrained", "checkpoint": str(path)},
        )
        model.init_weights()
    model.eval()
    run = last_and_pooled(model)
    return _loaded(f"{package} {source.architecture}", run, path, model, note)


def _loaded(
    name: str, run: Callable[[Tensor], Features], path: Path, model: nn.Module, *notes: str
) -> Loaded:
    state: Mapping[str, Tensor] = model.state_dict()
    return Loaded(name, run, read_checkpoint(path), state, notes)


def write_detectron2(source: Exported, path: Path) -> None:
    """Write the form that detectron2's checkpointer takes for self-supervised weights."""
    state = source.state.items()
    model = {theirs: value.numpy() for ours, value in state if (theirs := to_detectron2(ours))}
    content = {"model": model, "__author__": "mmssprl", "matching_heuristics": True}
    with path.open("wb") as file:
        pickle.dump(content, file)


def load_detectron2(path: Path, source: Exported) -> Loaded:
    """Read the file by the inverse table into mmpretrain's ResNet."""
    file = read_state(path)
    backbone = load_backbone(RANDOM, source.cfg)
    backbone.load_state_dict({from_detectron2(k): v for k, v in file.items()}, strict=False)
    ours = backbone.state_dict().items()
    state = {theirs: value for name, value in ours if (theirs := to_detectron2(name))}
    note = "In detectron2: " + ", ".join(f"{k} {v!r}" for k, v in _settings(source).items())
    model = f"mmpretrain {source.architecture}, names mapped back"
    return Loaded(model, last_and_pooled(backbone), file, state, (note,))


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


def image_px(source: Exported) -> tuple[int, int]:
    """Height and width that the backbone was built for, or those of the image views, or 224."""
    layout = source.cfg.model.get("layout")
    usual = [ViewLayout.build(layout).image_px if layout else 224] * 2
    size = getattr(source.backbone, "img_size", usual)
    return int(size[0]), int(size[1])
