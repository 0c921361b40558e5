"""Make mmengine write local files atomically, and run no code from files that it reads.

mmengine writes a checkpoint in place, and it unpickles any object. The replacements are registered
for the whole process.
"""

import sys
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlparse

import torch
import yaml
from mmengine import fileio
from mmengine.runner.checkpoint import (
    CheckpointLoader,
    get_deprecated_model_names,
    get_external_models,
    get_torchvision_models,
)

from ..errors import UserOSError, UserValueError
from ..system.locks import wait_for
from ..system.outputs import whole_file
from ..weights import read_checkpoint
from ..weights.checkpoint_file import load_pickle, reason_of


@fileio.register_backend("local", prefixes="", force=True)
class WholeFileBackend(fileio.LocalBackend):
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


@fileio.register_handler(["pkl", "pickle"])
class SafePickleHandler(fileio.PickleHandler):
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


@fileio.register_handler(["yaml", "yml"])
class SafeYamlHandler(fileio.YamlHandler):
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
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with wait_for(path):  # other ranks wait, and find the file
                if not path.exists():
                    is_shown = sys.stderr.isatty()
                    torch.hub.download_url_to_file(filename, str(path), progress=is_shown)
    except OSError as error:
        raise UserOSError(
            f"cannot download {filename} ({error}); save it in {path.parent}, or give a local file."
        ) from error
    return load_from_local(str(path))


_SERVICES = ["mmcls://", "pavi://", r"(\S+\:)?s3://", r"(\S+\:)?petrel://"]
"""Refused: old names, and storage services, as mmengine would unpickle their files."""


@CheckpointLoader.register_scheme(
    prefixes=["torchvision://", "modelzoo://", "open-mmlab://", "openmmlab://", *_SERVICES],
    force=True,
)
def load_from_publisher(filename: str, map_location: Any = None) -> Any:
    """Load a checkpoint that torchvision or OpenMMLab publishes under a name."""
    scheme, _, name = filename.partition("://")
    places: dict[str, str] = {}
    if scheme in ("torchvision", "modelzoo"):
        places = get_torchvision_models()
    elif scheme in ("open-mmlab", "openmmlab"):
        places = get_external_models()
        name = get_deprecated_model_names().get(name, name)

    if name not in places:
        raise UserValueError(
            "a checkpoint must be a file, an http(s) URL or a name that torchvision or OpenMMLab "
            f"publishes, but got {filename}; download it first."
        )
    return load_from_http(places[name])
