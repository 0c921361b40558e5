"""Load initial backbone weights, and replace a config's backbone by that of the weights."""

import copy
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import Runner
from mmpretrain.models import ResNet
from mmpretrain.models.backbones.resnet import get_expansion
from torch import nn

from ..config.build_errors import explain_build_errors
from ..errors import UserError, UserValueError
from ..functional.pooling import pool
from ..models import is_pretraining
from ..models.unwrap import unwrap
from ..pixels import Normalisation
from ..registry import HOOKS, MODELS, class_of
from ..system.stopping import is_first_process
from ..weights import (
    RANDOM,
    SUPERVISED,
    build_backbone,
    check_fit,
    find_config,
    find_normalisation,
    names_network,
    start_state,
    take_normalisation,
    whole_path,
)
from ..weights.branches import read_branch
from ..weights.checkpoint_file import read_state
from ..weights.description import channels_of
from ..work_dirs import run_config

_HOOK = "mmssprl.InitialWeightsHook"
_TORCHVISION = {
    **{"stem_channels": 64, "base_channels": 64, "num_stages": 4, "style": "pytorch"},
    **{"deep_stem": False, "avg_down": False, "in_channels": 3},
}
_RESNET_FIELDS = ("depth", "strides", "dilations", *_TORCHVISION)
_PROBE_PX = 224
"""Image size to find the number of features; some transformers take no other."""


@HOOKS.register_module()
class InitialWeightsHook(Hook):
    """Load weights into ``model.backbone`` before the first step, but not in a resumed training.

    Args:
        weights: WEIGHTS as in ``start_state``; 'supervised' is torchvision's IMAGENET1K_V1.
        depth: Depth of torchvision's ResNet.

    Raises:
        ValueError: At the start, if the weights do not fit the backbone.
    """

    def __init__(self, weights: str, depth: int = 50) -> None:
        self.weights = weights
        self.depth = depth

    def before_train(self, runner: Runner) -> None:
        """Load all weights."""
        if runner.iter > 0:
            return
        backbone = unwrap(runner.model).backbone
        expected = backbone.state_dict()
        state = start_state(self.weights, self.depth, expected)
        check_fit(
            state,
            expected,
            weights=self.weights,
            owner=str(runner.cfg.filename),
            remedy="give weights of this backbone.",
        )
        # Only BatchNorm's step counters may be missing.
        backbone.load_state_dict(state, strict=False)
        print_log(f"backbone weights: {len(state)} tensors of {self.weights}", logger="current")


def apply_weights(cfg: Config, weights: str | None, *, adapt: bool = True) -> None:
    """Check the weights in ``cfg.weights``, and make the training start from them.

    ``weights`` replaces that field. With ``adapt``, except in pre-training, the config's backbone
    is replaced if the weights do not fit it, see ``fit_backbone``.

    Raises:
        FileNotFoundError: The file is missing.
        OSError: Supervised weights cannot be downloaded.
        ValueError: There is no such field, an ``init_cfg`` as well, or the weights do not fit.
    """
    if weights is not None:
        if "weights" not in cfg and not is_pretraining(cfg):
            raise UserValueError(
                "--weights needs a pre-training config or one with a field `weights` "
                f"(configs/benchmarks), but {cfg.filename} is neither; leave it out, or set "
                "load_from to load a full checkpoint."
            )
        cfg.weights = str(weights)
    # A config dumped by an earlier run has the hook already.
    others = [own for own in cfg.get("custom_hooks") or [] if own["type"] != _HOOK]
    if cfg.get("custom_hooks"):
        cfg.custom_hooks = others
    chosen = cfg.get("weights")
    if chosen in (None, RANDOM):
        _check_init_cfg(cfg)
        return
    if cfg.model.backbone.get("init_cfg"):
        raise UserValueError(
            f"weights={chosen!r} and model.backbone.init_cfg both load the backbone; remove "
            "model.backbone.init_cfg."
        )
    hook: dict[str, Any] = {"type": _HOOK, "weights": chosen}
    if chosen == SUPERVISED:
        hook["depth"] = torchvision_depth(cfg)
        start_state(chosen, hook["depth"])
    else:
        hook["weights"] = whole_path(chosen)
        fit_backbone(cfg, str(chosen), adapt=adapt and not is_pretraining(cfg))
    take_normalisation(cfg, find_normalisation(chosen, cfg.model.backbone))
    cfg.custom_hooks = [*others, hook]


def torchvision_depth(cfg: Config) -> int:
    """Return the depth of a config's backbone; raise ValueError if it is not torchvision's."""
    backbone = cfg.model.backbone
    own = [key for key, value in _TORCHVISION.items() if backbone.get(key, value) != value]
    kind = class_of(backbone.type, MODELS, cfg.get("default_scope", "mmssprl"))
    # By name: each scope has its own ResNet, and its subclasses have other stems.
    if kind is None or kind.__name__ != "ResNet" or own:
        got = ", ".join([str(backbone.type), *(f"{key}={backbone[key]}" for key in own)])
        raise UserValueError(
            "weights='supervised' needs torchvision's ResNet of standard width and depth, but the "
            f"backbone of {cfg.filename} is {got}; give a file or 'random'."
        )
    return int(backbone.depth)


def fit_backbone(cfg: Config, path: str, *, adapt: bool = True, of_run: bool = False) -> None:
    """Replace the backbone of a transfer config if the weights do not fit it.

    With ``adapt`` the new backbone is that of ``NAME.json`` next to the file, or the ResNet that
    fits the tensors; with ``of_run`` that of the config in the run's folder.

    Raises:
        FileNotFoundError: The file is missing.
        ValueError: The weights fit neither backbone, or the config cannot use the new one.
    """
    if not names_network(path):
        read_state(path)  # raises if the file is damaged
    try:
        _check_fit(cfg, path, str(cfg.filename))
        return
    except UserValueError as misfit:
        if not adapt:
            raise
        try:
            described = run_config(Path(path).parent) if of_run else find_config(path, None)
        except UserError as error:
            raise UserValueError(" ".join(dict.fromkeys((str(misfit), str(error))))) from None
    if channels_of(described) != 3:
        raise UserValueError(
            f"weights must be of a backbone for RGB images, but {path} is of one for "
            f"{channels_of(described)} channels; use them with probe or embed."
        )
    other = described.model.backbone.to_dict()
    adapted = copy.deepcopy(cfg)
    with explain_build_errors(described):
        adapt_backbone(adapted, other)
    _check_fit(adapted, path, str(described.filename or path))
    cfg.model = adapted.model
    if is_first_process():
        print_log(
            f"model.backbone is now the {other['type']} of {described.filename or path}, because "
            f"{path} does not fit that of {cfg.filename}.",
            logger="current",
        )


def take_backbone(cfg: Config, checkpoint: str) -> None:
    """Use the backbone and the normalisation of a checkpoint's training.

    ``--weights`` may have replaced both.
    """
    if "weights" not in cfg or "://" in checkpoint:
        return
    fit_backbone(cfg, checkpoint, of_run=True)
    with suppress(UserError):  # the file is in no folder of a run
        run = run_config(Path(checkpoint).parent)
        take_normalisation(cfg, Normalisation.of_config(run))


def adapt_backbone(cfg: Config, backbone: Mapping[str, Any]) -> None:
    """Replace ``cfg.model.backbone``, and adapt the channels of the layers after it.

    Raises:
        ValueError: Detection and segmentation take only a ResNet.
    """
    scope = cfg.get("default_scope", "mmssprl")
    if scope == "mmssprl":
        cfg.model.backbone = {k: v for k, v in backbone.items() if k != "init_cfg"}
        built = _build(cfg)
        built.eval()  # not chained: mmpretrain's train() returns None
        with torch.inference_mode():
            features = pool(built(torch.zeros(1, 3, _PROBE_PX, _PROBE_PX)))  # (1, C)
        cfg.model.head.in_channels = features.shape[1]
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
        cfg.model.backbone.strides = (1, 2, 1, 1)[:num_stages]  # stride 8
        cfg.model.backbone.dilations = (1, 1, 2, 4)[:num_stages]
        for head, index in (("decode_head", num_stages - 1), ("auxiliary_head", num_stages - 2)):
            if cfg.model[head] is not None:
                cfg.model[head].in_index = index
                cfg.model[head].in_channels = channels[index]


def _check_fit(cfg: Config, path: str, owner: str) -> None:
    expected = _build(cfg).state_dict()
    check_fit(
        start_state(path, wanted=expected),
        expected,
        weights=path,
        owner=owner,
        remedy="use a config with the backbone of the weights, put the JSON of their "
        "pre-training next to the file, or give other weights.",
    )


def _check_init_cfg(cfg: Config) -> None:
    """Refuse an ``init_cfg`` whose file has the backbone where mmengine does not look for it."""
    init: Any = (cfg.model.get("backbone") or {}).get("init_cfg")
    path = init.get("checkpoint") if isinstance(init, Mapping) else None
    if not path or "://" in path or init.get("prefix"):
        return
    prefix = read_branch(path, _build(cfg).state_dict()).prefix
    if prefix.removeprefix("state_dict.") not in ("", "module."):
        raise UserValueError(
            "model.backbone.init_cfg reads a backbone at the top of a file or in its state_dict, "
            f"but that of {path} is below {prefix!r}; `convert` it, or give it by `weights`."
        )


def _build(cfg: Config) -> nn.Module:
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
