"""The mean and deviation that a network's images are normalised by, from one source.

Every command asks here: ``pretrain --weights``, teachers, ``embed``, ``probe``, ``finetune`` and
``export``. The first of these that exists is taken: ``NAME.json`` next to the weights, the config
inside a checkpoint, what the hub of Hugging Face says of a file of timm, timm's ``pretrained_cfg``,
attributes of the module that a function returns, and ImageNet's numbers.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
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
from .checkpoint_file import say_once
from .description import find_description, find_hub_record, read_description
from .sources import Source, weights_file
from .stored_config import WHITE, check_numbers, stored_normalisation

_RECORDS = ("pretrained_cfg", "default_cfg", "preprocess_cfg")
"""Attributes of networks of timm and open_clip, with mean and std in [0, 1]."""
_KEYS = (("mean", "std"), ("image_mean", "image_std"))


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
        file = weights_file(source.file)
        description = find_description(file)
        if description is not None:
            own = Normalisation.of_config(read_description(description))
            return own._replace(source=description.name)
        if (stored := stored_normalisation(file)) is not None:
            return stored

    kind = str(backbone.get("type")).rpartition(".")[2]
    if kind == "TimmBackbone":
        return _of_timm(backbone["model_name"], source.file)
    if kind == "ModuleBackbone":
        return of_module(ModuleBackbone(backbone["network"]).inner, backbone["network"])
    return Normalisation()


def _of_timm(name: str, file: str) -> Normalisation:
    """Return timm's numbers of a network, or of the weights that the hub says a file holds."""
    check_timm(name)
    import timm

    records: dict[str, Any] = {}
    hub = find_hub_record(Path(file)) if file else None
    if hub is not None:
        if hub.network != name.partition(".")[0]:
            say_once(
                f"warning: {hub.source} says that {file} is of timm/{hub.name}, but it is read as "
                f"timm/{name}. Networks with equal tensors can differ in padding and activation."
            )
        records[f"timm's {hub.name}"] = hub.record or _published(hub.name)
    records.setdefault(f"timm's {name}", timm.get_pretrained_cfg(name))
    found = (_numbers_of(record, source) for source, record in records.items())
    # A network without published weights has no numbers.
    return next(filter(None, found), Normalisation())


def _published(name: str) -> Any:
    """Return timm's record of a name with its tag; None if it has none."""
    import timm

    with suppress(RuntimeError):  # of an unknown tag
        return timm.get_pretrained_cfg(name)
    return None


def of_module(network: nn.Module, name: str) -> Normalisation:
    """Return the numbers in the attributes of a module: ``mean`` and ``std``, or timm's records.

    A network around one of timm or open_clip has the record of that one. Numbers up to 1 are shares
    of white, as in timm and torchvision, others are of 0 to 255. Attributes that are not one
    number, or one for each of three channels, are something else.

    Raises:
        ValueError: Such numbers that are not finite, a deviation that is not above 0, or parts of
            a network with different records.
    """
    own = _numbers_of(network, name)
    if own is not None:
        return own

    found: list[Normalisation] = []
    for place, part in network.named_modules(prefix=name):
        records = (_numbers_of(getattr(part, key, None), f"{place}.{key}") for key in _RECORDS)
        found += filter(None, records)
        if found and part is network:
            break
    others = [each for each in found if not each.equals(found[0])]
    if others:
        raise UserValueError(
            f"mean and std of {found[0].source} and of {others[0].source} differ, {found[0]} and "
            f"{others[0]}; set the attributes mean and std of the network to the right ones."
        )
    return found[0] if found else Normalisation()


def _numbers_of(holder: Any, source: str) -> Normalisation | None:
    """Return mean and deviation in attributes or entries; None if there are none.

    Raises:
        ValueError: As ``of_module``.
    """
    for keys in _KEYS:
        mean, std = (_colours(holder, key) for key in keys)
        if mean is None or std is None:
            continue
        check_numbers(mean.tolist(), std.tolist(), source)
        unit = WHITE if max(mean.max(), std.max()) <= 1 else 1.0
        return Normalisation(tuple((unit * mean).tolist()), tuple((unit * std).tolist()), source)
    return None


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
