"""Weights that torchvision and timm download, and what to do where they cannot be downloaded."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torchvision.models import get_model_weights, list_models

from ..config.reading import one_line
from ..errors import UserOSError, UserValueError
from ..models.timm_backbone import check_timm
from .sources import SUPERVISED, timm_model

_ANOTHER = "give another network: timm/NAME:FILE, or package.module:function for one of yours"
_HUB_FILES = ("model.safetensors", "pytorch_model.bin")
"""Names under which the hub keeps weights, in the order in which timm asks for them."""
_PATIENCE_S = 10.0


def has_supervised(depth: int) -> bool:
    """Whether torchvision's weights of a ResNet are in torch's cache already."""
    name = f"resnet{depth}"
    return name in list_models() and _cached(_entry(name).url).is_file()


def supervised_state(depth: int) -> dict[str, Tensor]:
    """Return torchvision's weights of a ResNet trained on ImageNet, without the classifier.

    They are downloaded to torch's cache once and checked by their hash.
    """
    name = f"resnet{depth}"
    if name not in list_models():
        raise UserValueError(
            f"torchvision has no supervised weights of a {name}; give a file or 'random'."
        )

    entry = _entry(name)
    file = _cached(entry.url)
    was_cached = file.is_file()
    try:
        state = entry.get_state_dict(progress=True, check_hash=True, weights_only=True)
    except (MemoryError, PermissionError):  # the file may be good
        raise
    except Exception as error:  # damaged files raise almost any class
        if was_cached:
            raise UserOSError(
                f"{file}, of '{SUPERVISED}', cannot be read ({one_line(error)}). Delete it, and "
                f"run the same command again, or download {entry.url} to its place."
            ) from error
        title = f"'{SUPERVISED}', torchvision's ResNet-{depth},"
        way = (
            f"download {entry.url} elsewhere, and give that file, or copy it to {file.parent} "
            "(TORCH_HOME moves it)"
        )
        raise _not_downloaded(title, file.parent, error, [way, _ANOTHER]) from error
    return {key: value for key, value in state.items() if not key.startswith("fc.")}


def timm_state(weights: str) -> dict[str, Tensor]:
    """Return timm's own weights of timm/NAME, from the cache or downloaded."""
    name = timm_model(weights)
    check_timm(name)
    import timm

    record = timm.get_pretrained_cfg(name)
    if record is None or not record.has_weights:
        raise UserValueError(f"timm has no weights of {weights}; give a file: {weights}:FILE.")
    try:
        if record.hf_hub_id:
            _require_hub(record)
        network = timm.create_model(name, pretrained=True, num_classes=0)
    except Exception as error:  # from the hub, the network, or timm
        raise _of_timm(weights, record, error) from error
    return dict(network.state_dict())


def _require_hub(record: Any) -> None:
    """Raise an error of the hub if a file is not cached and the hub does not answer.

    The hub's library would repeat each request several times, and timm asks for two files.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError

    repository, revision = _repository(record)
    names = [record.hf_hub_filename] if record.hf_hub_filename else _HUB_FILES
    found = [try_to_load_from_cache(repository, name, revision=revision) for name in names]
    if any(isinstance(each, str) for each in found):
        return

    url = hf_hub_url(repository, names[0], revision=revision)
    with suppress(EntryNotFoundError):  # timm asks for the other name next
        get_hf_file_metadata(url, timeout=_PATIENCE_S)


def _of_timm(weights: str, record: Any, error: Exception) -> UserOSError:
    """Return the error of weights of timm that could not be had."""
    if not record.hf_hub_id:
        cache = _cached(record.url).parent
        ways = [
            f"download {record.url} elsewhere, and give {weights}:FILE, or copy it to {cache} "
            "(TORCH_HOME moves it)",
        ]
        return _not_downloaded(weights, cache, error, [*ways, _ANOTHER])

    from huggingface_hub.constants import HF_HUB_CACHE

    repository, _ = _repository(record)
    name = record.hf_hub_filename or _HUB_FILES[0]
    folder = f"models--{repository.replace('/', '--')}"
    ways = [
        f"download {name} of https://huggingface.co/{repository} elsewhere, and give "
        f"{weights}:FILE",
        f"copy the folder {folder} of another machine's cache to {HF_HUB_CACHE} (HF_HOME or "
        "HF_HUB_CACHE moves it)",
    ]
    return _not_downloaded(weights, Path(HF_HUB_CACHE), error, [*ways, _ANOTHER])


def _not_downloaded(title: str, cache: Path, error: Exception, ways: Sequence[str]) -> UserOSError:
    """Return an error that lists the ways to give weights where there is no internet."""
    head = (
        f"{title} is not in {cache} and cannot be downloaded ({one_line(error)}). Do one of these:"
    )
    return UserOSError("\n".join([head, *(f"  * {way}" for way in ways)]))


def _repository(record: Any) -> tuple[str, str | None]:
    """Return a repository of the hub, and its revision if timm names one."""
    repository, _, revision = record.hf_hub_id.partition("@")
    return repository, revision or None


def _entry(name: str) -> Any:
    return get_model_weights(name)["IMAGENET1K_V1"]


def _cached(url: str) -> Path:
    """Return the place in torch's cache of a file with a URL."""
    return Path(torch.hub.get_dir()) / "checkpoints" / Path(url).name
