"""Small forms of every pre-training config, for a CPU or one GPU.

``scenes`` is for the generated sample data, ``photos`` for a few thousand photographs on a CPU, and
``photos-gpu`` for the same photographs with a full ResNet-18 on a GPU.
"""

import copy
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ..errors import UserValueError
from ..models import SinkhornHead, is_pretraining
from .reading import read_config_file, refuse
from .shipped import SIZES

_OF_SIZE = ("in_channels", "epsilon", *SinkhornHead.data_fields)
"""Fields of a SinkhornHead that depend on data, network and optimizer, not on the method."""
_OF_RUN = ("weights", "load_from", "randomness")
"""Start and seed, which a config keeps at all sizes."""
_OF_LOADING = ("num_workers", "persistent_workers", "pin_memory")


def read_at_size(config: str | Path, size: str | None = None) -> Config:
    """Read a config that a user names, at a size if one is given."""
    cfg = read_config_file(config)
    return cfg if size is None else at_size(cfg, size)


def at_size(cfg: Config, size: str) -> Config:
    """Return the form of a method's config at a size: ``scenes``, ``photos`` or ``photos-gpu``.

    Data, augmentation, network, optimizer and schedule come from ssprl_resnet18_SIZE.py. The method
    keeps its model, views and crops, its start and its seed. The config's ``small`` sets further
    values by dotted key; a list has one value for each size. A config that trains on labels takes
    the network only.

    Raises:
        ValueError: Unknown size, a model without views, or a grid that the size does not have.
    """
    if size not in SIZES:
        raise UserValueError(f"size must be one of {', '.join(SIZES)}, but got {size!r}.")
    base = read_config_file(f"configs/ssprl/ssprl_resnet18_{size}.py")
    content = (_pretraining if is_pretraining(cfg) else _labelled)(copy.deepcopy(cfg), base)
    made = Config(
        content,
        filename=name_at_size(cfg.filename or "config", size),
        cfg_text=f"# {cfg.filename}, at size {size}\n",
    )

    small = dict(cfg.get("small") or {})
    warmup_epochs = small.pop("warmup_epochs", 0)
    each = SIZES.index(size)
    values = {k: v[each] if isinstance(v, list) else v for k, v in small.items()}
    made.merge_from_dict(values)
    if warmup_epochs:
        _warm_up(made, warmup_epochs)

    if "layout" in made:
        made.layout = copy.deepcopy(made.model.layout)
    return made


def name_at_size(config: str | Path, size: str) -> str:
    """Return the file name at a size, such as ``ssprl_resnet18_scenes.py``."""
    return f"{Path(config).stem.partition('_resnet')[0]}_resnet18_{size}.py"


def _pretraining(cfg: Config, base: Config) -> dict[str, Any]:
    if "layout" not in cfg.model:
        refuse(cfg, "model.layout", "it must be set, as a size changes the views; add it.")
    found = base.to_dict()
    small = found["model"]
    model = cfg.to_dict()["model"]

    model["layout"] = _layout(cfg, model["layout"], small["layout"])
    kind = model["data_preprocessor"]["type"]
    model["data_preprocessor"] = {**small["data_preprocessor"], "type": kind}
    model["backbone"] = small["backbone"]
    widths = {k: v for k, v in small["neck"].items() if k != "type"}
    model["neck"] = {**model["neck"], **widths}
    if head := model.get("head"):
        kept = {name: value for name, value in head.items() if name not in _OF_SIZE}
        sized = [name for name in _OF_SIZE if name in head and name in small["head"]]
        model["head"] = kept | {name: small["head"][name] for name in sized}

    found["model"] = model
    found["train_dataloader"]["dataset"]["pipeline"] = cfg.train_dataloader.dataset.pipeline
    found |= {key: cfg.get(key) for key in ("sync_bn", "custom_hooks")}
    found |= {key: cfg[key] for key in _OF_RUN if cfg.get(key)}
    return found


def _layout(cfg: Config, views: dict[str, Any], small: dict[str, Any]) -> dict[str, Any]:
    """Return the method's views in the pixels of a size."""
    levels = {each["grid"]: each for each in small["levels"]}
    for own in views["levels"]:
        if own["grid"] not in levels:
            grids = " and ".join(map(str, levels))
            reason = f"sizes have the grids {grids}, but got {own['grid']}; leave the level out."
            refuse(cfg, "model.layout.levels", reason)
    return {
        **views,
        **small,
        **{name: views[name] for name in ("num_small", "small_area") if name in views},
        "levels": [{**own, **levels[own["grid"]]} for own in views["levels"]],
    }


def _labelled(cfg: Config, base: Config) -> dict[str, Any]:
    if "small" not in cfg:
        refuse(cfg, "", "a size needs a pre-training config, but this is not one; leave it out.")
    found = cfg.to_dict()
    found["model"]["backbone"] = base.to_dict()["model"]["backbone"]
    found["model"]["head"]["in_channels"] = base.feature_channels
    loading = {k: v for k, v in base.train_dataloader.items() if k in _OF_LOADING}
    found["train_dataloader"].update(loading)
    return found


def _warm_up(cfg: Config, epochs: int) -> None:
    """Put a linear warm-up before the cosine without changing where it ends."""
    unit = {"by_epoch": True, "convert_to_iter_based": True}
    length = cfg.train_cfg.max_epochs - epochs
    cfg.param_scheduler = [
        {"type": "LinearLR", "start_factor": 0.01, "end": epochs, **unit},
        {"type": "CosineAnnealingLR", "T_max": length, "begin": epochs, **unit},
    ]
