"""torchvision's ResNets, trained on ImageNet's labels."""

import pickle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torchvision.models import get_model_weights, list_models

from ..errors import UserOSError, UserValueError

SUPERVISED = "supervised"
"""Stands for a weights file: torchvision's IMAGENET1K_V1."""


def has_supervised(depth: int) -> bool:
    """Whether torchvision's weights of a ResNet are in torch's cache, with nothing to download."""
    name = f"resnet{depth}"
    known = name in list_models()
    return known and (_cache() / Path(_entry(name).url).name).is_file()


def supervised_state(depth: int) -> dict[str, Tensor]:
    """Return torchvision's weights of a ResNet trained on ImageNet, without the classifier.

    They are downloaded once into torch's own cache, with a progress bar, and checked.

    Raises:
        OSError: They are not in the cache and cannot be downloaded.
        ValueError: torchvision has no ResNet of this depth, or the file in the cache is damaged or
            holds other things than tensors.
    """
    name = f"resnet{depth}"
    if name not in list_models():
        raise UserValueError(
            f"supervised weights exist for torchvision's ResNets, but there is no {name}; "
            "give a file or 'random'."
        )
    entry = _entry(name)
    folder = _cache()
    try:
        state = entry.get_state_dict(progress=True, check_hash=True, weights_only=True)
    except (pickle.UnpicklingError, EOFError, RuntimeError) as error:
        # Of a hash that differs, too: torch checks it after a download, and not in the cache.
        raise UserValueError(
            f"the supervised weights must be torchvision's own file, but that in {folder} cannot "
            f"be read ({type(error).__name__}); delete it, and put {entry.url} there."
        ) from error
    except OSError as error:
        raise UserOSError(
            f"the supervised weights are neither in {folder} nor can they be downloaded ({error}); "
            f"put {entry.url} there."
        ) from error
    return {key: value for key, value in state.items() if not key.startswith("fc.")}


def _entry(name: str) -> Any:
    return get_model_weights(name)["IMAGENET1K_V1"]


def _cache() -> Path:
    return Path(torch.hub.get_dir()) / "checkpoints"
