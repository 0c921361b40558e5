"""Read files of weights without running any code in them."""

import codecs
import os
import pickle
import re
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from mmengine.logging import HistoryBuffer
from safetensors.torch import load_file
from torch import Tensor

from ..console.paths import check_path
from ..errors import UserFileNotFoundError, UserValueError

_ARCHIVE = b"PK\x03\x04"


def read_checkpoint(path: str | Path, *, mmap: bool = False) -> Any:
    """Read what ``torch.save`` wrote, a ``.safetensors`` file, or a ``.pkl`` of detectron2.

    Tensors are loaded on the CPU. With ``mmap``, those of a zip archive stay in the file, which
    must not change meanwhile. Raises ValueError for a file of another kind, a damaged one, or one
    that holds more than tensors and plain values.
    """
    path = weights_file(path)
    try:
        return _read(path, mmap)
    except Exception as error:  # damaged files raise almost any class
        raise UserValueError(
            f"{path} cannot be read ({reason_of(error)}); copy it again, or save its state dict "
            "alone with torch.save or safetensors."
        ) from error


def _read(path: Path, mmap: bool) -> Any:
    if path.suffix == ".safetensors":
        return load_file(path)
    with path.open("rb") as file:
        is_archive = file.read(len(_ARCHIVE)) == _ARCHIVE
        if path.suffix == ".pkl" and not is_archive:
            file.seek(0)
            return load_pickle(file)
        file.seek(0)
        # torch's reader takes only names in UTF-8, and maps only files that it opens by name.
        source = path if os.fsencode(path) == str(path).encode(errors="replace") else file
        mapped = mmap and is_archive and source is path
        with torch.serialization.safe_globals(_ALLOWED):
            return torch.load(source, map_location="cpu", weights_only=True, mmap=mapped)


def load_pickle(file: IO[bytes]) -> Any:
    """Read a pickle of arrays and plain values, from Python 2 or 3; refuse any other class."""
    return _Unpickler(file, encoding="latin1").load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        # All allowed classes are written in C, so that a file cannot change their attributes.
        full = f"{module}.{name}".replace("numpy._core.", "numpy.core.")
        if full not in _PICKLED:
            raise pickle.UnpicklingError(f"GLOBAL {full}")
        return _PICKLED[full]


def reason_of(error: BaseException) -> str:
    """Return why a file cannot be read: the class that it names, or the class of the error."""
    if found := re.search(r"GLOBAL (\S+)", str(error)):
        return f"it asks for {ascii(found[1][:100])[1:-1]}, and no code of a file is run"
    return type(error).__name__


def _statistic(owner: Any, name: Any) -> Any:
    """Replace ``getattr``, with which mmengine's histories name four of their methods."""
    if owner is not HistoryBuffer or name not in ("min", "max", "current", "mean"):
        raise pickle.UnpicklingError("GLOBAL builtins.getattr")
    return getattr(owner, name)


_PICKLED: dict[str, Any] = {
    # numpy 1 and 2 have these two functions in different modules.
    "numpy.core.multiarray._reconstruct": np.zeros(1).__reduce__()[0],
    "numpy.core.multiarray.scalar": np.float64(1).__reduce__()[0],
    "numpy.ndarray": np.ndarray,
    "numpy.dtype": np.dtype,
    "collections.OrderedDict": OrderedDict,
    "_codecs.encode": codecs.encode,
}
_ALLOWED: list[Any] = [
    *((value, name) for name, value in _PICKLED.items()),
    *((value, name.replace(".core.", "._core.")) for name, value in _PICKLED.items()),
    *(each for each in vars(np.dtypes).values() if isinstance(each, type)),
    (_statistic, "builtins.getattr"),
    HistoryBuffer,
    Namespace,  # the options of other projects
]
"""Classes and functions that a checkpoint may name, in addition to those that torch allows."""


def read_state(path: str | Path) -> dict[str, Tensor]:
    """Read all tensors and arrays of a file by name; keys of nested dicts are joined by dots.

    Raises the errors of ``read_checkpoint``, and ValueError for a file without named tensors.
    """
    path = weights_file(path)
    content = read_checkpoint(path)
    if tensors := dict(_tensors(content)):
        return tensors
    raise UserValueError(
        f"{path} holds a {type(content).__name__} without named tensors; give a *_backbone.pth, a "
        "training checkpoint or a published file."
    )


def _tensors(content: Any, prefix: str = "", depth: int = 8) -> Iterator[tuple[str, Tensor]]:
    for key, value in content.items() if isinstance(content, Mapping) else ():
        if not isinstance(key, str) or key.startswith("optim"):
            continue  # moments of an optimizer may have the names of the weights
        if isinstance(value, np.ndarray) and value.dtype.kind in "fi":
            # Copied, because arrays of protocol 5 can be read-only, and in native byte order.
            value = torch.from_numpy(value.astype(value.dtype.newbyteorder("=")))
        if isinstance(value, Tensor):
            yield prefix + key, value
        elif depth > 1:
            yield from _tensors(value, f"{prefix}{key}.", depth - 1)


def check_fit(
    state: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    *,
    weights: str,
    owner: str,
    remedy: str,
) -> None:
    """Raise ValueError unless the names and shapes of weights are those of a model.

    BatchNorm's ``num_batches_tracked`` may be missing, as in old files.
    """
    optional = {key for key in expected if key.endswith("num_batches_tracked")}
    faults = list_faults(state, expected, optional)
    if faults:
        raise UserValueError(
            f"every weight of {weights} must fit the backbone of {owner}, but got {faults}; "
            f"{remedy}"
        )


def list_faults(
    state: Mapping[str, Tensor], expected: Mapping[str, Tensor], optional: Container[str]
) -> str:
    """Describe how names and shapes differ; '' if only ``optional`` names are missing."""
    kinds = {
        "missing": [key for key in expected if key not in state and key not in optional],
        "unexpected": [key for key in state if key not in expected],
        "quantised": [
            f"{key} {state[key].dtype}"
            for key, value in expected.items()
            if key in state and value.is_floating_point() > state[key].is_floating_point()
        ],
        "of another shape": [
            f"{key} {tuple(state[key].shape)} instead of {tuple(expected[key].shape)}"
            for key in expected
            if key in state and state[key].shape != expected[key].shape
        ],
    }
    return ", ".join(
        f"{len(names)} {kind} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
        for kind, names in kinds.items()
        if names
    )


def weights_file(weights: str | Path) -> Path:
    """Return the path of a file, or of the newest ``*_backbone.pth`` in the folder of a run."""
    path = check_path(weights, "weights", file="a file", folder="the folder of a run")
    if path.is_dir():
        found = sorted(path.glob("*_backbone.pth"), key=lambda file: file.stat().st_mtime)
        if not found:
            raise UserFileNotFoundError(
                f"{path} has no *_backbone.pth, which a finished pre-training writes; give a "
                "checkpoint (epoch_N.pth)."
            )
        return found[-1]
    return path
