"""Read files of weights without running any code in them."""

import codecs
import functools
import os
import pickle
import re
import zipfile
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from mmengine.logging import HistoryBuffer, print_log
from safetensors.torch import load_file
from torch import Tensor

from ..errors import UserValueError
from .architecture import architecture_of, listed
from .description import named_by_place
from .other_files import other_file
from .sources import Source, weights_file
from .stand_ins import StandIn, stand_ins_for

_ARCHIVE = b"PK\x03\x04"
_SAFETENSORS = re.compile(rb".{4}\0{4}\{", re.DOTALL)  # length of a header in JSON
_UNREAD = re.compile(r"GLOBAL (\S+)")
"""The class that torch's reader, or ours, refuses."""
_MOST_NAMED = 3
_COPY_AGAIN = "copy it again, or save its state dict alone with torch.save or safetensors"


def read_checkpoint(path: str | Path, *, mmap: bool = False) -> Any:
    """Read what ``torch.save`` wrote, a ``.safetensors`` file, or a ``.pkl`` of detectron2.

    Tensors are loaded on the CPU. With ``mmap``, the tensors of a zip archive stay in the file,
    which must not change meanwhile. A value of a class that is not read becomes a ``StandIn``, or a
    plain dict or list. Raises ValueError for a file of another kind, a damaged one, or one that
    names functions of the operating system.
    """
    path = weights_file(path)
    try:
        return _read(path, mmap)
    except UserValueError:
        raise
    except Exception as error:  # damaged files raise almost any class
        found = (reason_of(error), _COPY_AGAIN)
        is_class = _UNREAD.search(str(error))  # then a file of text is an old pickle
        if not (is_class or isinstance(error, PermissionError)):
            found = other_file(path) or found
        reason, remedy = found
        raise UserValueError(f"{path} cannot be read ({reason}); {remedy}.") from error


def _read(path: Path, mmap: bool) -> Any:
    with path.open("rb") as file:
        start = file.read(9)  # downloads often have the suffix of the other format
        if _SAFETENSORS.match(start):
            return load_file(path)
        is_archive = start.startswith(_ARCHIVE)
        if is_archive and _is_script(file):
            raise UserValueError(
                f"{path} is a TorchScript archive, and no code of a file is run; load it by "
                "torch.jit.load, and save its state_dict() with torch.save."
            )
        file.seek(0)
        if path.suffix == ".pkl" and not is_archive:
            return load_pickle(file)

        # torch's reader takes only names in UTF-8, and maps only files that it opens by name.
        source = path if os.fsencode(path) == str(path).encode(errors="replace") else file
        mapped = mmap and is_archive and source is path
        try:
            return _load(source, _ALLOWED, mmap=mapped)
        except pickle.UnpicklingError as error:
            if not _UNREAD.search(str(error)):
                raise

        # The file names classes that are not read.
        made: set[str] = set()
        stand_ins = stand_ins_for(file, made)
        file.seek(0)
        content = _load(source, stand_ins | _ALLOWED, mmap=mapped)

    if made:
        first = ", ".join(map(_shown, sorted(made)[:_MOST_NAMED]))
        more = f" and {len(made) - _MOST_NAMED} more classes" if len(made) > _MOST_NAMED else ""
        say_once(f"{path}: values of {first}{more} are left out, as no code of a file is run.")
    return content


def _is_script(file: IO[bytes]) -> bool:
    """Whether a zip archive holds code, as torch.jit.save writes."""
    try:
        with zipfile.ZipFile(file) as archive:
            return any("/code/" in name for name in archive.namelist())
    except zipfile.BadZipFile:  # a damaged file, which torch's reader reports
        return False


def _load(source: Path | IO[bytes], allowed: Mapping[str, Any], *, mmap: bool) -> Any:
    with torch.serialization.safe_globals([(value, name) for name, value in allowed.items()]):
        return torch.load(source, map_location="cpu", weights_only=True, mmap=mmap)


say_once = functools.cache(print_log)
"""Log a line once per process, because a command reads its weights several times."""


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
    if found := _UNREAD.search(str(error)):
        return f"it asks for {_shown(found[1])}, and no code of a file is run"
    return type(error).__name__


def _shown(name: str) -> str:
    return ascii(name[:100])[1:-1]


def _statistic(owner: Any, name: Any) -> Any:
    """Replace ``getattr``: mmengine's histories name four methods, and enums name their members."""
    if isinstance(owner, StandIn) or (isinstance(owner, type) and issubclass(owner, StandIn)):
        return owner
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
_ALLOWED: dict[str, Any] = {
    **_PICKLED,
    **{name.replace(".core.", "._core."): value for name, value in _PICKLED.items()},
    **{f"numpy.dtypes.{n}": each for n, each in vars(np.dtypes).items() if isinstance(each, type)},
    "builtins.getattr": _statistic,
    f"{HistoryBuffer.__module__}.HistoryBuffer": HistoryBuffer,
    "argparse.Namespace": Namespace,  # the options of other projects
}
"""Classes and functions that a checkpoint may name, in addition to those that torch allows."""


def read_state(path: str | Path) -> dict[str, Tensor]:
    """Read all tensors and arrays of a file by name; keys of nested dicts are joined by dots.

    Raises the errors of ``read_checkpoint``, and ValueError for a file without named tensors.
    """
    path = weights_file(path)
    content = read_checkpoint(path)
    if tensors := dict(_tensors(content)):
        return tensors

    parts = [content, *(dict.values(content) if isinstance(content, dict) else ())]
    network = next((type(each).__name__ for each in parts if isinstance(each, StandIn)), None)
    if network is not None:
        raise UserValueError(
            f"{path} holds a pickled {_shown(network)} and no tensors, and code is not run from a "
            "file; load it where its code is, and save its state_dict() with torch.save."
        )
    raise UserValueError(
        f"{path} holds a {type(content).__name__} without named tensors; give a *_backbone.pth, a "
        "training checkpoint or a published file."
    )


def _tensors(content: Any, prefix: str = "", depth: int = 8) -> Iterator[tuple[str, Tensor]]:
    if not isinstance(content, dict):
        return
    # Not ``content.items``: a file may set attributes of an OrderedDict.
    for key, value in dict.items(content):
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
    """Raise ValueError unless weights have the names and shapes of a model's tensors.

    BatchNorm's ``num_batches_tracked`` may be missing, as in old files, and a shared tensor under
    all its names but one, as safetensors writes it.
    """
    optional = {key for key in expected if key.endswith("num_batches_tracked")}
    # Tensors of the meta device have no place.
    places = {key: each.data_ptr() for key, each in expected.items() if each.data_ptr()}
    given = {place for key, place in places.items() if key in state}
    optional |= {key for key, place in places.items() if place in given}
    faults = list_faults(state, expected, optional)
    if faults:
        file = Source.of(weights).file
        look = (file and named_by_place(Path(file))) or _look_of(state, expected)
        raise UserValueError(
            f"every weight of {weights} must fit the backbone of {owner}, but got {faults}; "
            f"{remedy} {look}".rstrip()
        )


def _look_of(state: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str:
    """Return a sentence on what a file looks like that does not fit a network; '' if no use."""
    found = architecture_of(state)
    wanted = architecture_of(expected)
    if found is None:
        return f"The tensors of the file begin with {', '.join(list(state)[:3])}." if state else ""
    if found == wanted:
        return ""
    if wanted is not None and found.differs_in_width(wanted):
        name = f", as timm/{found.timm_name}" if found.timm_name else ""
        widths = f"{listed(found.widths)} instead of {listed(wanted.widths)}"
        return f"The file looks like the same network at another width, {widths}{name}."
    return f"The file looks like {found}."


def list_faults(
    state: Mapping[str, Tensor], expected: Mapping[str, Tensor], optional: Container[str]
) -> str:
    """Describe how names and shapes differ; '' if only ``optional`` names are missing."""

    def is_quantised(key: str) -> bool:
        return expected[key].is_floating_point() and not state[key].is_floating_point()

    kinds = {
        "missing": [key for key in expected if key not in state and key not in optional],
        "unexpected": [key for key in state if key not in expected],
        "quantised": [
            f"{key} {state[key].dtype}" for key in expected if key in state and is_quantised(key)
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
