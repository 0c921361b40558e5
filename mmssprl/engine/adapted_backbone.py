"""Replace the backbone of a config if the weights do not fit it."""

import copy
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.logging import print_log
from mmpretrain.models import ResNet
from mmpretrain.models.backbones.resnet import get_expansion
from torch import nn

from ..config.build_errors import explain_build_errors
from ..config.run_config import run_config
from ..errors import UserError, UserValueError
from ..functional.pooling import pool
from ..pixels import Normalisation
from ..registry import MODELS, class_of
from ..system.stopping import is_first_process
from ..weights import (
    Source,
    build_backbone,
    check_fit,
    find_config,
    start_state,
    take_normalisation,
)
from ..weights.backbone import needs_caffe_style
from ..weights.checkpoint_file import read_state, say_once
from ..weights.description import USUAL_PX, channels_of
from ..weights.pooled import accepted_px

TORCHVISION_FIELDS = {
    "stem_channels": 64,
    "base_channels": 64,
    "num_stages": 4,
    "style": "pytorch",
    "deep_stem": False,
    "avg_down": False,
    "in_channels": 3,
}
_USUAL_FIELDS = {"strides": (1, 2, 2, 2), "dilations": (1, 1, 1, 1), **TORCHVISION_FIELDS}
_RESNET_FIELDS = ("depth", *_USUAL_FIELDS)


def fit_backbone(cfg: Config, path: str, *, adapt: bool = True) -> None:
    """Replace the backbone of a transfer config if the weights do not fit it.

    With ``adapt`` the new backbone is the one that ``NAME.json`` next to the file describes, or
    the ResNet that fits the tensors.

    Raises:
        FileNotFoundError: The file is missing.
        ValueError: The weights fit neither backbone, or the config cannot use the new one.
    """
    _fit(cfg, path, partial(find_config, path, None) if adapt else None)


def take_backbone(cfg: Config, checkpoint: str) -> None:
    """Use the backbone and the normalisation of a checkpoint's training.

    ``--weights`` may have replaced both.
    """
    if "weights" not in cfg or "://" in checkpoint:
        return
    config_of_run = partial(run_config, Path(checkpoint).parent)
    _fit(cfg, checkpoint, config_of_run)
    with suppress(UserError):  # the file is in no folder of a run
        take_normalisation(cfg, Normalisation.of_config(config_of_run()))


def _fit(cfg: Config, path: str, describe: Callable[[], Config] | None) -> None:
    """Use the backbone that ``describe`` returns for the weights if they do not fit the config."""
    if not Source.of(path).network:
        read_state(path)  # raises if the file is damaged

    try:
        _check_fit(cfg, path, str(cfg.filename))
        return
    except UserValueError as misfit:
        if describe is None:
            raise
        try:
            described = describe()
        except UserError as error:
            raise UserValueError(" ".join(dict.fromkeys((str(misfit), str(error))))) from None

    if channels_of(described) != 3:
        raise UserValueError(
            f"weights must belong to a backbone for RGB images, but {path} belongs to one for "
            f"{channels_of(described)} channels; use them with probe or embed."
        )

    backbone = described.model.backbone.to_dict()
    origin = described.filename or path
    adapted = copy.deepcopy(cfg)
    with explain_build_errors(described):
        adapt_backbone(adapted, backbone)
    _check_fit(adapted, path, str(origin))
    cfg.model = adapted.model
    if is_first_process():
        print_log(
            f"model.backbone is now the {backbone['type']} of {origin}, because {path} does not "
            f"fit the backbone of {cfg.filename}.",
            logger="current",
        )


def adapt_backbone(cfg: Config, backbone: Mapping[str, Any]) -> None:
    """Replace ``cfg.model.backbone``, and adapt the channels of the layers after it.

    Raises:
        ValueError: Detection and segmentation take only a ResNet.
    """
    scope = cfg.get("default_scope", "mmssprl")
    if scope == "mmssprl":
        _use_in_classifier(cfg, backbone)
        return

    kind: Any = class_of(backbone["type"], MODELS)
    if kind is not ResNet:
        raise UserValueError(
            f"the {scope} configs support only ResNets, but the backbone is {backbone['type']}; "
            "write your own config for it, or skip this protocol."
        )
    own = {key: backbone[key] for key in _RESNET_FIELDS if key in backbone}
    kept = {key: value for key, value in cfg.model.backbone.items() if key not in _RESNET_FIELDS}
    num_stages = own.get("num_stages", 4)
    cfg.model.backbone = {**kept, **own, "out_indices": tuple(range(num_stages))}

    expansion = get_expansion(ResNet.arch_settings[own["depth"]][0])
    channels = [own.get("base_channels", 64) * 2**i * expansion for i in range(num_stages)]
    if scope == "mmdet":
        _fit_pyramid(cfg.model, channels)
    else:
        _fit_segmentor(cfg.model, channels)


def plain_resnet(backbone: Mapping[str, Any]) -> dict[str, Any]:
    """Return mmpretrain's config of the ResNet in a detector or segmenter of ``adapt_backbone``."""
    found = {"type": "ResNet", "depth": backbone["depth"]}
    for key, usual in _USUAL_FIELDS.items():
        value = backbone.get(key, usual)
        value = tuple(value) if isinstance(value, list) else value
        if value != usual:
            found[key] = value
    if "num_stages" in found:  # not the usual four
        found["out_indices"] = (found["num_stages"] - 1,)
    return found


def _use_in_classifier(cfg: Config, backbone: Mapping[str, Any]) -> None:
    """Replace the backbone, and count the features that the head will read."""
    cfg.model.backbone = {k: v for k, v in backbone.items() if k != "init_cfg"}
    built = build_for_config(cfg)
    built.eval()  # not chained: mmpretrain's train() returns None
    px = accepted_px(built, cfg.get("image_px", USUAL_PX))
    with torch.inference_mode():
        features = pool(built(torch.zeros(1, 3, px, px)))  # (1, C)
    cfg.model.head.in_channels = features.shape[1]


def _check_fit(cfg: Config, path: str, owner: str) -> None:
    backbone = build_for_config(cfg)
    expected = backbone.state_dict()
    check_fit(
        start_state(path, wanted=expected),
        expected,
        weights=path,
        owner=owner,
        remedy="use a config with the backbone of the weights, put the JSON of their "
        "pre-training next to the file, or give other weights.",
    )
    take_style(cfg, path, backbone)


def take_style(cfg: Config, path: str, built: nn.Module) -> None:
    """Give a ResNet, which was built from the config, the style of its weights, and say so.

    Raises:
        ValueError: The network is of timm or of a function, and has no style.
    """
    if needs_caffe_style(path, cfg.model.backbone, built.state_dict()):
        cfg.model.backbone.style = "caffe"
        if is_first_process():
            file = Source.of(path).file
            say_once(f"model.backbone has style 'caffe', because {file} has it.")


def build_for_config(cfg: Config) -> nn.Module:
    """Build the backbone of a config; its mistakes name the config's keys."""
    with explain_build_errors(cfg):
        return build_backbone(cfg, scope=cfg.get("default_scope", "mmssprl"))


def _fit_pyramid(model: Any, channels: list[int]) -> None:
    """Let the FPN read all stages, and keep the number of extra levels on top."""
    extra = model.neck.num_outs - len(model.neck.in_channels)
    model.neck.in_channels = channels
    model.neck.num_outs = len(channels) + extra
    strides = [4 * 2**i for i in range(model.neck.num_outs)]
    model.rpn_head.anchor_generator.strides = strides
    for extractor in ("bbox_roi_extractor", "mask_roi_extractor"):
        model.roi_head[extractor].featmap_strides = strides[: len(channels)]


def _fit_segmentor(model: Any, channels: list[int]) -> None:
    """Dilate the last stages, and let the heads read the last and the one before it."""
    num_stages = len(channels)
    model.backbone.strides = (1, 2, 1, 1)[:num_stages]  # stride 8
    model.backbone.dilations = (1, 1, 2, 4)[:num_stages]
    for head, index in (("decode_head", num_stages - 1), ("auxiliary_head", num_stages - 2)):
        if model[head] is not None:
            model[head].in_index = index
            model[head].in_channels = channels[index]
