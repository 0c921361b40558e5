"""The mean and deviation that a network's images are normalised by, from one source.

Every command asks here: ``pretrain --weights``, teachers, ``embed``, ``probe``, ``finetune`` and
``export``. The first of these that exists is taken: ``NAME.json`` next to the weights, timm's
``pretrained_cfg``, attributes of the module that a function returns, and ImageNet's numbers.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from mmengine.config import Config
from mmengine.logging import print_log
from torch import Tensor, nn

from ..errors import UserValueError
from ..models import ModuleBackbone, is_pretraining
from ..models.timm_backbone import check_timm
from ..pixels import IMAGENET_MEAN, Normalisation
from ..system.stopping import is_first_process
from .description import find_description, read_description
from .sources import Source, weights_file

_RECORDS = ("pretrained_cfg", "default_cfg")
"""Attributes of timm's networks, and of those that follow timm, with mean and std in [0, 1]."""
_WHITE = 255.0


def says_normalisation(cfg: Config) -> bool:
    """Whether a config is of a training: its numbers are its own, ImageNet's if it sets none."""
    return any(part.get("layout") or part.get("data_preprocessor") for part in (cfg, cfg.model))


def find_normalisation(weights: str, backbone: Mapping[str, Any]) -> Normalisation:
    """Return the numbers that weights were trained with.

    Args:
        weights: WEIGHTS as the user gave them, or their file alone.
        backbone: The config of their network.

    Raises:
        ValueError: A damaged description, or numbers of a module that are none.
    """
    source = Source.of(weights)
    if source.is_supervised:  # torchvision's
        return Normalisation()
    if source.file:
        description = find_description(weights_file(source.file))
        if description is not None:
            own = Normalisation.of_config(read_description(description))
            return own._replace(source=description.name)

    kind = str(backbone.get("type")).rpartition(".")[2]
    if kind == "TimmBackbone":
        return _of_timm(backbone["model_name"])
    if kind == "ModuleBackbone":
        return of_module(ModuleBackbone(backbone["network"]).inner, backbone["network"])
    return Normalisation()


def _of_timm(name: str) -> Normalisation:
    check_timm(name)
    import timm

    record = timm.get_pretrained_cfg(name)
    if record is None:  # of a network without published weights
        return Normalisation()

    mean = tuple(_WHITE * value for value in record.mean)
    std = tuple(_WHITE * value for value in record.std)
    return Normalisation(mean, std, f"timm's {name}")


def of_module(network: nn.Module, name: str) -> Normalisation:
    """Return the numbers in the attributes of a module: timm's records, or ``mean`` and ``std``.

    Numbers up to 1 are shares of white, as in timm and torchvision, others are of 0 to 255.
    Attributes that are not one number, or one for each of three channels, are something else.

    Raises:
        ValueError: Such numbers that are not finite, or a deviation that is not above 0.
    """
    holders = {f"{name}.{key}": getattr(network, key, None) for key in _RECORDS}
    holders[name] = network
    for source, holder in holders.items():
        mean = _colours(holder, "mean")
        std = _colours(holder, "std")
        if mean is None or std is None:
            continue
        if not np.isfinite([mean, std]).all() or std.min() <= 0:
            raise UserValueError(
                f"mean and std of {source} must be finite and std above 0, but are {mean.tolist()} "
                f"and {std.tolist()}; correct the attributes of the module."
            )
        unit = _WHITE if max(mean.max(), std.max()) <= 1 else 1.0
        return Normalisation(tuple((unit * mean).tolist()), tuple((unit * std).tolist()), source)
    return Normalisation()


def _colours(holder: Any, key: str) -> np.ndarray | None:
    """Return an attribute or entry as three numbers, or None if it is something else."""
    value = holder.get(key) if isinstance(holder, Mapping) else getattr(holder, key, None)
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    try:
        found = np.asarray(value, dtype=float).ravel()
    except (TypeError, ValueError):  # such as a method
        return None
    is_number = value is not None and found.size in (1, len(IMAGENET_MEAN))
    return np.resize(found, len(IMAGENET_MEAN)) if is_number else None


def take_normalisation(cfg: Config, own: Normalisation) -> None:
    """Let a training normalise its images by the numbers of its weights, and say so.

    Numbers that the user chose are kept, with a warning: any in a pre-training config, and in
    other configs all but ImageNet's.

    Raises:
        ValueError: The weights are of images of another format.
    """
    now = Normalisation.of_config(cfg)
    if len(own.mean) != len(now.mean) and own.pixels is None:
        return  # RGB's numbers stand for unknown ones; shapes are compared with the backbone's
    own = own.for_pixels(now.pixels)
    if now.equals(own):
        return

    is_top = cfg.get("data_preprocessor") and not cfg.model.get("data_preprocessor")
    holder = cfg if is_top else cfg.model
    given = holder.get("data_preprocessor") or {}
    text = f"images are normalised by {own} of {own.source}, as its weights were trained."
    if not now.equals(Normalisation()) or (is_pretraining(cfg) and "mean" in given):
        text = (
            f"warning: the config normalises by {now}, but the weights were trained with {own} of "
            f"{own.source}; remove mean and std from data_preprocessor to take these."
        )
    else:
        holder.data_preprocessor = {**given, **own.numbers}
    if is_first_process():
        print_log(text, logger="current")
