"""detectron2's pickle of numpy arrays under detectron2's names of a ResNet."""

import inspect
import pickle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...models import PyramidPreprocessor
from ..backbone import RANDOM, load_backbone
from ..key_tables import from_detectron2, to_detectron2
from .target import Exported, Features, Loaded, imported, last_and_pooled

_INSTALL = "'git+https://github.com/facebookresearch/detectron2.git'"
_WIDTH = 64
_BOTTLENECK_DEPTH = 50
"""From this depth on blocks are bottlenecks, which detectron2 builds at any width."""

_COUNTER = "num_batches_tracked"


def write_detectron2(source: Exported, path: Path) -> None:
    """Write the form that detectron2's checkpointer takes for self-supervised weights."""
    state = source.state.items()
    model = {theirs: value.numpy() for ours, value in state if (theirs := to_detectron2(ours))}
    content = {"model": model, "__author__": "mmssprl", "matching_heuristics": True}
    with path.open("wb") as file:
        pickle.dump(content, file)


def load_detectron2(path: Path, source: Exported) -> Loaded:
    """Read the file into detectron2's ResNet, or by the inverse table into mmpretrain's."""
    with path.open("rb") as stream:
        model = pickle.load(stream)["model"]  # our own file, written a moment ago
    file = {name: torch.from_numpy(value) for name, value in model.items()}
    note = "In detectron2: " + ", ".join(f"{k} {v!r}" for k, v in _settings(source).items())
    if source.backbone.depth < _BOTTLENECK_DEPTH and source.backbone.base_channels != _WIDTH:
        why = (
            f"detectron2 builds ResNet-18 and -34 with {_WIDTH} channels only: its own model was "
            "not tried; this width needs a ResNet class of your own."
        )
        return _load_own(file, source, why, note)
    modeling, missing = imported("detectron2.modeling.backbone", _INSTALL)
    if missing:
        return _load_own(file, source, *missing, note)
    return _load_theirs(modeling, file, source, note)


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


def _load_theirs(modeling: Any, file: dict[str, Tensor], source: Exported, note: str) -> Loaded:
    from detectron2.config import get_cfg
    from detectron2.layers import ShapeSpec

    last = f"res{source.backbone.num_stages + 1}"
    cfg = get_cfg()
    settings = {**_settings(source), "MODEL.RESNETS.OUT_FEATURES": [last]}
    settings["MODEL.RESNETS.NORM"] = "BN"  # the same values, and a CPU can run it
    cfg.merge_from_list([item for pair in settings.items() for item in pair])
    model = modeling.build_resnet_backbone(cfg, ShapeSpec(channels=source.in_channels))
    model.load_state_dict(file, strict=False)
    model.eval()

    def run(images: Tensor) -> Features:
        features = model(images)[last]
        return features, features.mean(dim=(2, 3))

    state = {k: v for k, v in model.state_dict().items() if not k.endswith(_COUNTER)}
    return Loaded(f"detectron2 {source.architecture}", run, file, state, (note,))


def _load_own(file: dict[str, Tensor], source: Exported, *notes: str) -> Loaded:
    backbone = load_backbone(RANDOM, source.cfg)
    backbone.load_state_dict({from_detectron2(k): v for k, v in file.items()}, strict=False)
    ours = backbone.state_dict().items()
    state = {theirs: value for name, value in ours if (theirs := to_detectron2(name))}
    model = f"mmpretrain {source.architecture}, names mapped back"
    return Loaded(model, last_and_pooled(backbone), file, state, notes)
