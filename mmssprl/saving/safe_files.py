"""Make mmengine write local files atomically, and run no code from files that it reads.

mmengine writes a checkpoint in place, so a kill leaves a torn file, and it unpickles any object.
This module registers replacements at mmengine's extension points (back-ends, handlers, checkpoint
schemes). They apply to the whole process, and to all packages that use mmengine's file functions.
"""

import sys
from pathlib import Path
from typing import IO, Any, NoReturn
from urllib.parse import urlparse

import torch
import yaml
from mmengine.dist import barrier, is_main_process
from mmengine.fileio import (
    LocalBackend,
    PickleHandler,
    YamlHandler,
    register_backend,
    register_handler,
)
from mmengine.runner.checkpoint import (
    CheckpointLoader,
    get_deprecated_model_names,
    get_external_models,
    get_torchvision_models,
)

from ..errors import UserOSError, UserValueError
from ..system.outputs import whole_file
from ..weights import read_checkpoint
from ..weights.checkpoint_file import load_pickle, reason_of


@register_backend("local", prefixes="", force=True)
class WholeFileBackend(LocalBackend):
    """mmengine's LocalBackend, which writes through ``whole_file``."""

    def put(self, obj: bytes, filepath: str | Path) -> None:
        """Write bytes."""
        path = Path(filepath)
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, "wb") as file:
            file.write(obj)

    def put_text(self, obj: str, filepath: str | Path, encoding: str = "utf-8") -> None:
        """Write text."""
        self.put(obj.encode(encoding), filepath)


@register_handler(["pkl", "pickle"])
class SafePickleHandler(PickleHandler):
    """mmengine's PickleHandler without running code from the file, such as annotations."""

    def load_from_fileobj(self, file: IO[bytes], **kwargs: Any) -> Any:
        """Read a pickle; raise ValueError if it is damaged or could run code."""
        try:
            return load_pickle(file)
        except Exception as error:  # damaged files raise almost any class
            name = getattr(file, "name", "one")
            raise UserValueError(
                f"a pickle must hold only arrays and plain values, but {name} does not "
                f"({reason_of(error)}); save its values as JSON."
            ) from error


@register_handler(["yaml", "yml"])
class SafeYamlHandler(YamlHandler):
    """mmengine's YamlHandler with ``yaml.SafeLoader``."""

    def load_from_fileobj(self, file: IO[str], **kwargs: Any) -> Any:
        """Read YAML; raise YAMLError at a Python tag."""
        return super().load_from_fileobj(file, **{**kwargs, "Loader": yaml.SafeLoader})


@CheckpointLoader.register_scheme(prefixes="", force=True)
def load_from_local(filename: str, map_location: Any = None) -> Any:
    """Read a local file to the CPU."""
    content = read_checkpoint(Path(filename).expanduser())
    if isinstance(content, dict) and isinstance(content.get("meta"), dict):
        # Runner.resume would run the config of old files as Python.
        content["meta"].pop("config", None)
    return content


@CheckpointLoader.register_scheme(prefixes=["http://", "https://"], force=True)
def load_from_http(filename: str, map_location: Any = None) -> Any:
    """Download a file into torch's cache unless it is there, and read it."""
    path = Path(torch.hub.get_dir()) / "checkpoints" / Path(urlparse(filename).path).name
    # Rank 0 downloads first, so that the other ranks of its machine find the file.
    try:
        if is_main_process():
            _download(filename, path)
    finally:
        barrier()
    _download(filename, path)
    return load_from_local(str(path))


def _download(url: str, path: Path) -> None:
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        torch.hub.download_url_to_file(url, str(path), progress=sys.stderr.isatty())
    except OSError as error:
        raise UserOSError(
            f"cannot download {url} ({error}); save it in {path.parent}, or give a local file."
        ) from error


_TORCHVISION = ("torchvision", "modelzoo")
_OPENMMLAB = ("open-mmlab", "openmmlab")


@CheckpointLoader.register_scheme(
    prefixes=[f"{name}://" for name in (*_TORCHVISION, *_OPENMMLAB)], force=True
)
def load_from_publisher(filename: str, map_location: Any = None) -> Any:
    """Load a checkpoint that torchvision or OpenMMLab publishes under a name."""
    scheme, _, name = filename.partition("://")
    if scheme in _OPENMMLAB:
        name = get_deprecated_model_names().get(name, name)
    places = get_external_models() if scheme in _OPENMMLAB else get_torchvision_models()
    if name not in places:
        raise UserValueError(
            f"{scheme} publishes no checkpoint named {name!r}; give a file or an http(s) URL "
            f"instead of {filename}."
        )
    return load_from_http(places[name])


@CheckpointLoader.register_scheme(
    prefixes=["mmcls://", "pavi://", r"(\S+\:)?s3://", r"(\S+\:)?petrel://"], force=True
)
def load_from_storage(filename: str, map_location: Any = None) -> NoReturn:
    """Refuse storage services, whose files mmengine unpickles, and mmcls's old names."""
    raise UserValueError(
        f"a checkpoint must be a file or an http(s) URL, but got {filename}; download it first."
    )
