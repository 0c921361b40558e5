"""What embeddings are made of, so that those of something else are told apart."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..version import __version__
from .crops import Crops
from .frozen_backbone import FrozenBackbone
from .images import Images

_CHANGED = {
    "weights_sha256": "the weights",
    "images_sha256": "the list of images",
    "image_px": "--image-px",
    "levels": "--patches",
    "mean": "the normalisation of the config",
    "std": "the normalisation of the config",
}
"""What makes two embeddings different, and what a user calls it."""


def describe(model: FrozenBackbone, weights: Any, images: Images, crops: Crops) -> dict[str, Any]:
    """Return what decides the embeddings, as plain values: two that are equal give the same."""
    state = hashlib.sha256(repr(model.backbone).encode())
    for name, value in sorted(model.backbone.state_dict().items()):
        state.update(name.encode())
        # Bytes of any type of number, those that numpy lacks too.
        state.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    files = hashlib.sha256()
    for name in images.names:
        files.update(name.encode("utf-8", "surrogateescape") + b"\0")
    files.update(repr(images.sizes()).encode())
    return {
        "mmssprl": __version__,
        "weights": str(weights) if isinstance(weights, str | Path) else "",
        "weights_sha256": state.hexdigest(),
        "images": str(images.root.resolve()),
        "num_images": len(images),
        "images_sha256": files.hexdigest(),
        "image_px": crops.image_px,
        "levels": [[level.grid, level.resize_px, level.patch_px] for level in crops.levels],
        "mean": list(model.mean),
        "std": list(model.std),
    }


def find_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Say in what two embeddings differ, by what ``describe`` returned for each."""
    return list(dict.fromkeys(what for key, what in _CHANGED.items() if before[key] != now[key]))
