"""detectron2's pickle of numpy arrays under detectron2's names of a ResNet."""

import inspect
import pickle
from pathlib import Path
from typing import Any

import torch

from ...models import PyramidPreprocessor
from ..backbone import RANDOM, load_backbone
from ..key_tables import from_detectron2, to_detectron2
from .target import Exported, Loaded, last_and_pooled


def write_detectron2(source: Exported, path: Path) -> None:
    """Write the form that detectron2's checkpointer takes for self-supervised weights."""
    state = source.state.items()
    model = {theirs: value.numpy() for ours, value in state if (theirs := to_detectron2(ours))}
    content = {"model": model, "__author__": "mmssprl", "matching_heuristics": True}
    with path.open("wb") as file:
        pickle.dump(content, file)


def load_detectron2(path: Path, source: Exported) -> Loaded:
    """Read the file by the inverse table into mmpretrain's ResNet."""
    with path.open("rb") as stream:
        model = pickle.load(stream)["model"]  # our own file, written a moment ago
    file = {name: torch.from_numpy(value) for name, value in model.items()}
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
