"""The mean and deviation that a network's images are normalised by, from one source.

Every command asks here: ``pretrain --weights``, teachers, ``embed``, ``probe``, ``finetune`` and
``export``. The first of these that exists is taken: ``NAME.json`` next to the weights, the config
inside a checkpoint, what the hub of Hugging Face or timm's training says of a file, timm's
``pretrained_cfg``, attributes of the module that a function returns, and ImageNet's numbers.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config
from mmengine.logging import print_log
from torch import Tensor, nn

from .._dependencies import is_importable
from ..config.hooks import is_named
from ..errors import UserValueError
from ..models import ModuleBackbone, is_pretraining
from ..models.timm_backbone import check_timm
from ..pixels import IMAGENET_MEAN, Normalisation
from ..system.stopping import is_first_process
from .checkpoint_file import say_once
from .description import find_description, find_hub_record, read_description
from .sources import Source, weights_file
from .stored_config import (
    WHITE,
    check_numbers,
    stored_normalisation,
    takes_bgr,
    training_record,
)

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
    name = backbone.get("model_name", "")  # timm's
    if source.file:
        file = weights_file(source.file)
        own = _described(file, name)
        if own is not None and Path(own.source).stem in (file.stem, file.resolve().stem):
            return own

        stored = stored_normalisation(file)
        if own is not None:
            # A checkpoint of another training may have been copied next to the JSON of a run.
            if stored is None or stored.equals(own):
                return own
            say_once(
                f"warning: {file} was trained with {stored}, as the config in it says, but "
                f"{own.source} next to it says {own}. The file is followed; move it out of the "
                "folder if it is of another training."
            )
        if stored is not None:
            _warn_of_bgr(file)
            return stored

    if is_named(backbone, "TimmBackbone"):
        return _of_timm(name, source.file)
    own = None
    if is_named(backbone, "ModuleBackbone"):
        own = _recorded(file) if source.file else None
        return own or of_module(ModuleBackbone(backbone["network"]).inner, backbone["network"])
    if is_named(backbone, "ResNet") and source.file:
        own = _recorded(file, f"resnet{backbone['depth']}", f"a ResNet-{backbone['depth']}")
    return own or Normalisation()


def _described(file: Path, name: str) -> Normalisation | None:
    """Return the numbers of the description next to a file that is read as timm's ``name``."""
    description = find_description(file)
    if description is None:
        return None
    described = read_description(description)
    said = described.model.backbone.get("model_name", "")
    if name and said and not _are_one(said, name):
        _warn_of_network(description.name, file, said, f"timm/{name}")
    return Normalisation.of_config(described)._replace(source=description.name)


def _warn_of_bgr(file: Path) -> None:
    if takes_bgr(file):
        say_once(
            f"warning: {file} was trained on BGR images, as its config says, but images are RGB "
            "here. `convert` reverses the input channels of a ResNet; of another network reverse "
            "them in its first convolution by flip(1)."
        )


def _of_timm(name: str, file: str) -> Normalisation:
    """Return timm's numbers of a network, or of the weights that a file is said to hold."""
    check_timm(name)
    import timm

    if file and (recorded := _recorded(Path(file), name, f"timm/{name}")):
        return recorded
    # A network without published weights has no numbers.
    own = _numbers_of(timm.get_pretrained_cfg(name), f"timm's {name}") or Normalisation()
    if file and "." not in name:
        _say_other_numbers(own, name, file)
    return own


def _say_other_numbers(own: Normalisation, name: str, file: str) -> None:
    """Name weights of a network that timm normalises by other numbers than by default."""
    import timm

    for tagged in timm.list_pretrained(f"{name}.*"):
        other = _numbers_of(timm.get_pretrained_cfg(tagged), f"timm's {tagged}")
        if other is not None and not other.equals(own):
            say_once(
                f"{file} does not say how its images were normalised: by {own} of {own.source} "
                f"here. Another tag, such as timm/{tagged}:{file}, takes {other}."
            )
            return


def _recorded(file: Path, name: str = "", read_as: str = "") -> Normalisation | None:
    """Return the numbers that the hub or timm's training says of a file; None if they do not.

    Warns of another network than timm's ``name``, if that is known.
    """
    found = find_hub_record(file) or training_record(file)
    if found is None:
        return None
    if name and not _are_one(found.name, name):
        _warn_of_network(found.source, file, found.name, read_as)
    source = found.training or f"timm's {found.name}"
    records = (found.record, _published(found.name))
    return next(filter(None, (_numbers_of(record, source) for record in records)), None)


def _are_one(said: str, name: str) -> bool:
    """Whether two names of timm are of one network; tags, and prefixes of a training, are left."""
    networks = [re.sub(r"^(tv|ssl|swsl|gluon)_|(_v1b)?(\..*)?$", "", each) for each in (said, name)]
    return networks[0] == networks[1]


def _warn_of_network(source: str, file: Path, said: str, read_as: str) -> None:
    say_once(
        f"warning: {source} says that {file} is of timm/{said}, but it is read as {read_as}. "
        "Networks with equal tensors can differ in padding and activation. Give "
        f"timm/{said}:{file} to follow it."
    )


def _published(name: str) -> Any:
    """Return timm's record of a name with its tag; None if it has none, or without timm."""
    if not is_importable("timm"):
        return None
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


def warn_of_description(cfg: Config, weights: str) -> None:
    """Warn if a config normalises otherwise than the description next to its weights."""
    file = Source.of(weights).file
    description = find_description(weights_file(file)) if file else None
    if description is None:
        return
    now = Normalisation.of_config(cfg)
    own = Normalisation.of_config(read_description(description))
    if not now.equals(own):
        say_once(
            f"warning: {cfg.filename} normalises by {now}, but {description.name} says {own}. The "
            "config is followed; leave it out to follow the description."
        )


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
