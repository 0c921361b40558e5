"""mmengine's loading of checkpoints, closed to code that a file carries.

mmengine unpickles a file that ``weights_only=True`` refuses, and whatever comes from a URL. Here
its documented extension point, ``CheckpointLoader.register_scheme``, gets loaders of the same
places that read tensors and plain values only. They hold for the whole process, so also for
``load_from``, ``resume`` and ``init_cfg=dict(type="Pretrained")`` of models of other packages.
"""

import sys
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlparse

import torch
from mmengine.dist import barrier, is_main_process
from mmengine.runner.checkpoint import (
    CheckpointLoader,
    get_deprecated_model_names,
    get_external_models,
    get_torchvision_models,
)

from ..errors import UserOSError, UserValueError
from ..weights import read_checkpoint


# mmengine logs the functions' names without "load_from_".
@CheckpointLoader.register_scheme(prefixes="", force=True)
def load_from_local(filename: str, map_location: Any = None) -> Any:
    """Read a local file; tensors come to the CPU, and whoever loads them copies them on.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is of another kind or damaged.
    """
    content = read_checkpoint(Path(filename).expanduser())
    if isinstance(content, dict) and isinstance(content.get("meta"), dict):
        # Old files keep their config here, and Runner.resume would run it as Python.
        content["meta"].pop("config", None)
    return content


@CheckpointLoader.register_scheme(prefixes=["http://", "https://"], force=True)
def load_from_http(filename: str, map_location: Any = None) -> Any:
    """Download a file into torch's own cache, unless it is there, and read it.

    Raises:
        OSError: It cannot be downloaded.
        ValueError: The file is of another kind or damaged.
    """
    path = Path(torch.hub.get_dir()) / "checkpoints" / Path(urlparse(filename).path).name
    # Rank 0 first: the other ranks of its machine find the file.
    try:
        if is_main_process():
            _download(filename, path)
    finally:
        barrier()
    _download(filename, path)
    return load_from_local(str(path), map_location)


@CheckpointLoader.register_scheme(
    prefixes=["torchvision://", "modelzoo://", "open-mmlab://", "openmmlab://"], force=True
)
def load_from_publisher(filename: str, map_location: Any = None) -> Any:
    """Load what torchvision or OpenMMLab publishes under a name.

    Raises:
        OSError, ValueError: As ``load_from_http``, or an unknown name.
    """
    scheme, _, name = filename.partition("://")
    if scheme in ("torchvision", "modelzoo"):
        places = get_torchvision_models()
    else:
        places = get_external_models()
        name = get_deprecated_model_names().get(name, name)
    if name not in places:
        raise UserValueError(
            f"{filename} must name a published checkpoint, but {scheme} has none called {name!r}; "
            "give a file or an http(s) URL."
        )
    return load_from_http(places[name], map_location)


@CheckpointLoader.register_scheme(
    prefixes=["mmcls://", "pavi://", r"(\S+\:)?s3://", r"(\S+\:)?petrel://"], force=True
)
def load_from_storage(filename: str, map_location: Any = None) -> NoReturn:
    """Refuse the storage services whose clients mmengine hands to pickle, and mmcls's old names.

    Raises:
        ValueError: Always.
    """
    raise UserValueError(
        f"a checkpoint must be a file or an http(s) URL, but got {filename}; download it, and give "
        "the file."
    )


def _download(url: str, path: Path) -> None:
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        torch.hub.download_url_to_file(url, str(path), progress=sys.stderr.isatty())
    except OSError as error:
        raise UserOSError(
            f"{url} cannot be downloaded ({error}); put it into {path.parent}, or give a file."
        ) from error
