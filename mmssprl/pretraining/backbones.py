"""The backbones of ``pretrain``."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..console.wording import first_line
from ..errors import UserError, UserValueError
from ..functional.pooling import pool
from ..models import ModuleBackbone, TimmBackbone
from ..models.grouped_batch_norm import does_more
from ..models.module_backbone import refuse_reused
from ..models.timm_backbone import check_timm
from ..weights import timm_model, timm_network
from .known_backbones import BACKBONES, Backbone, check_backbone_name
from .network_checks import (
    check_modes,
    check_tokens,
    check_types,
    has_trained_norms,
    network_warnings,
    num_fixed_norms,
    num_outputs,
)

_TIMM_OPTIONS = ((), ("dynamic_img_size",), ("dynamic_img_size", "dynamic_img_pad"))
"""Options for views of several sizes, and of sizes that are no multiple of the patch."""
_SET_LATER = ("zero_init_residual", "in_channels", "style")
"""Options of a backbone that other options and the weights set."""
_SAME = 1e-5  # tolerance within which timm's pooled features are the average of the map


def _is_resnet(network: nn.Module) -> bool:
    """Whether a class in it is a ResNet; not with scales of 0, which LARC would not move."""
    parts = [*network.modules()]
    kinds = chain(*(type(part).__mro__ for part in parts))
    named = any(kind.__name__ == "ResNet" for kind in kinds)
    norms = [part.weight for part in parts if isinstance(part, _BatchNorm)]
    return named and all(scale is None or bool(scale.any()) for scale in norms)


def _norm_that_does_more(network: nn.Module) -> str:
    """Return the class of the first BatchNorm with a forward of its own, or ''."""
    return next((type(part).__name__ for part in network.modules() if does_more(part)), "")


def name_of(cfg: Mapping[str, Any]) -> str | None:
    """Return the name that ``find_backbone`` takes for a backbone's config, or None."""
    if "model_name" in cfg:
        return timm_network(cfg["model_name"])
    own = {key: x for key, x in cfg.items() if key not in _SET_LATER}
    named = (each.name for each in BACKBONES.values() if each.cfg == own)
    return cfg.get("network") or next(named, None)


def find_backbone(name: str, sizes_px: Collection[int], in_channels: int = 3) -> Backbone:
    """Return a backbone: a key of ``BACKBONES``, timm/NAME, or package.module:function.

    Raises:
        ValueError: It is unknown, or does not take views of ``sizes_px`` and ``in_channels``.
    """
    if name in BACKBONES:
        found = BACKBONES[name]
        more = {} if in_channels == 3 else {"in_channels": in_channels}
        return replace(found, cfg={**found.cfg, **more})
    check_backbone_name(name)
    find = _find_in_timm if timm_model(name) else _find_module
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return find(name, [torch.randn(2, in_channels, px, px) for px in sizes_px])


def _find_module(name: str, views: Sequence[Tensor]) -> Backbone:
    """Run a network of the user on views, in training mode as well, and describe its output."""
    network: Any = ModuleBackbone(name)
    check_types(name, network.inner)
    refuse_reused(network)
    is_trained = has_trained_norms(network)
    network.to(memory_format=torch.channels_last)
    shapes = set()
    counts: set[int] = set()
    for is_training, images in product((False, True), views):
        network.train(is_training)
        try:
            with torch.set_grad_enabled(is_training):
                outputs = network.inner(images.contiguous(memory_format=torch.channels_last))
                last = network.last_of(outputs, images)
        except UserError:
            raise
        except Exception as error:  # of the user's code
            raise UserValueError(
                f"the backbone must take views {tuple(images.shape)}, but {name} raises "
                f"{first_line(error)}; let its forward take images of any size."
            ) from error
        counts.add(num_outputs(outputs))
        shapes.add((*last.shape[:2], *"hw"[: last.dim() - 2]))

    warnings = check_modes(name, network, counts, views[0])
    if len(shapes) > 1 or len(last) != 2 or not last.requires_grad:
        raise UserValueError(
            "the backbone must give as many features for images of any size, with gradient, but "
            f"for 2 images {name} gives {' and '.join(map(str, shapes))}, "
            f"requires_grad={last.requires_grad}; return its last feature map, not detached."
        )
    check_tokens(name, network, max(views, key=lambda images: images.shape[2]))
    return Backbone(
        name=name,
        cfg={"type": "ModuleBackbone", "network": name},
        channels=last.shape[1],
        gives_map=last.dim() == 4,
        is_resnet=_is_resnet(network),
        is_trained=is_trained,
        num_fixed_norms=num_fixed_norms(network),  # in training mode
        norm_that_does_more=_norm_that_does_more(network),
        warnings=[*warnings, *network_warnings(name, network, last, views[0])],
    )


@torch.no_grad()
def _find_in_timm(name: str, views: Sequence[Tensor]) -> Backbone:
    """Build a network of timm with options that take the views, and describe its output."""
    model_name = timm_model(name)
    in_channels = views[0].shape[1]
    fault = ""
    check_timm(model_name)

    more = {} if in_channels == 3 else {"in_chans": in_channels}
    for names in _TIMM_OPTIONS:
        options: dict[str, Any] = {**dict.fromkeys(names, True), **more}
        try:
            network = TimmBackbone(model_name, options=options).eval()
            pooled = [pool(network(images)) for images in views][-1]  # (2, C)
            last: Any = network.inner.forward_features(views[-1])  # type: ignore[operator]
        except Exception as error:  # each network refuses sizes in its own way
            fault = fault or first_line(error)
            continue
        # A network of several branches gives a list of tokens.
        is_map = isinstance(last, Tensor) and last.dim() == 4 and last.shape[:2] == pooled.shape
        gives_map = is_map and torch.allclose(pool(last), pooled, atol=_SAME)
        cfg: dict[str, Any] = {"type": "TimmBackbone", "model_name": model_name}
        cfg["out_type"] = "featmap" if gives_map else "pooled"
        cfg |= {"options": options} if options else {}
        return Backbone(
            name=name,
            cfg=cfg,
            channels=pooled.shape[1],
            gives_map=gives_map,
            is_resnet=_is_resnet(network),
            norm_that_does_more=_norm_that_does_more(network),
        )

    sides = sorted((images.shape[2] for images in views), reverse=True)
    sizes = ", ".join(f"{px} px" for px in sides)
    raise UserValueError(
        f"the backbone must take views of {sizes}, but {name} does not ({fault}); choose a "
        "network that takes images of any size."
    )
