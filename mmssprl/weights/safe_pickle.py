"""Reads pickles without running any code that they name.

A pickle names classes and functions, and Python's own unpickler imports and calls them. Here every
name is looked up in one table: what tensors, arrays, plain containers and the log buffers of
mmengine are made of. Nothing else is ever imported or called.
"""

import collections
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from mmengine.logging import HistoryBuffer

_ARCHIVE = b"PK\x03\x04"
_REBUILD = ("_rebuild_parameter", "_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3")
_STATISTICS = ("min", "max", "current", "mean")


class RefusedError(pickle.UnpicklingError):
    """A file asks for what could run code."""


class SafeUnpickler(pickle.Unpickler):
    """Refuses a pickle that names anything outside the table."""

    def __init__(self, file: Any, **options: Any) -> None:
        super().__init__(file, **options)
        # Made anew for each pickle, which could set attributes of the functions that it names.
        self._table = _make_table(self.unknown)

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Look up a name; ``torch.load`` itself resolves the names of storages."""
        module = "builtins" if module_name == "__builtin__" else module_name  # as in Python 2
        if module == "torch" and isinstance(getattr(torch, global_name, None), torch.dtype):
            return getattr(torch, global_name)
        name = f"{module}.{global_name}"
        return self._table[name] if name in self._table else self.unknown(name)

    def unknown(self, what: str) -> Any:
        """Refuse what is not in the table.

        Raises:
            RefusedError: Always.
        """
        raise RefusedError(f"it asks for {what}, and no code of a file is run")


class TolerantUnpickler(SafeUnpickler):
    """Puts an empty object in the place of each one that it does not know."""

    def unknown(self, what: str) -> Any:
        """Return a class of empty objects."""
        return type("Ignored", (_Ignored,), {})


class _Ignored:
    """Takes whatever a pickle puts into it, and keeps nothing."""

    def __init__(self, *args: object) -> None:
        pass

    def __call__(self, *args: object) -> "_Ignored":
        return self

    __setstate__ = __setitem__ = append = extend = __call__


def _is_ignored(value: Any) -> bool:
    return issubclass(value if isinstance(value, type) else type(value), _Ignored)


def reason_of(error: BaseException) -> str:
    """Return what is wrong with a file that cannot be read, or what it asked for."""
    return str(error) if isinstance(error, RefusedError) else type(error).__name__


def is_archive(path: Path) -> bool:
    """Whether ``torch.load`` takes the file for a zip archive."""
    with path.open("rb") as file:
        return file.read(len(_ARCHIVE)) == _ARCHIVE


def load_torch(
    path: Path, unpickler: type[SafeUnpickler], *, map_location: Any = "cpu", mmap: bool = False
) -> Any:
    """Read what ``torch.save`` of any version wrote.

    Args:
        path: The file.
        unpickler: ``SafeUnpickler`` for everything or nothing, or ``TolerantUnpickler``.
        map_location, mmap: As for ``torch.load``; mapped files must not change meanwhile.

    Raises:
        RefusedError: An unknown name, a TorchScript archive, or a tar file. A damaged file
            raises errors of almost any class.
    """
    is_zip = is_archive(path)  # files of torch < 1.6 are none and cannot be mapped
    # torch.load would hand such an archive to torch.jit.load, which no unpickler sees.
    with path.open("rb") as file:
        if is_zip and "constants.pkl" in torch._C.PyTorchFileReader(file).get_all_records():
            raise RefusedError("it is a TorchScript archive")
    # The format of torch 0.1, whose members torch.load would unpack into a folder.
    if not is_zip and tarfile.is_tarfile(path):
        raise RefusedError("it is a tar archive")
    module = SimpleNamespace(
        __name__=__name__,
        Unpickler=unpickler,
        load=lambda file, **options: unpickler(file, **options).load(),
    )
    with path.open("rb") as file:
        return torch.load(
            f"/dev/fd/{file.fileno()}",  # torch takes no name that is no UTF-8
            map_location=map_location,
            pickle_module=module,
            weights_only=False,  # it would bring torch's own unpickler, which refuses log buffers
            mmap=mmap and is_zip,
        )


def _make_table(unknown: Callable[[str], Any]) -> dict[str, Any]:
    """Give each name that a pickle may use; what a pickle could change is wrapped."""

    def get_statistic(owner: Any, name: str) -> Any:
        # Log buffers name their own methods by getattr, which itself would reach everything.
        if owner is HistoryBuffer and name in _STATISTICS:
            # As it is: the next checkpoint names it again. What a pickle may hang on a function
            # is read by nobody.
            return getattr(HistoryBuffer, name)
        return unknown(f"the attribute {name!r} of {owner!r}")()

    def encode(text: str, encoding: str) -> Any:
        # Protocol 2 writes bytes as text.
        if encoding == "latin1":
            return text.encode(encoding)
        return unknown(f"text in the encoding {encoding!r}")()

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if any(_is_ignored(arg) for arg in args):  # such as a subclass of numpy's array
                return unknown("something else")()
            return function(*args)

        return call

    array = np.zeros(1)
    parts = {
        "multiarray._reconstruct": array.__reduce__()[0],
        "multiarray.scalar": array[0].__reduce__()[0],
        "numeric._frombuffer": array.__reduce_ex__(5)[0],
    }
    return {
        "mmengine.logging.history_buffer.HistoryBuffer": HistoryBuffer,
        "builtins.getattr": get_statistic,
        "_codecs.encode": encode,
        **{f"builtins.{kind.__name__}": kind for kind in (set, frozenset, bytearray, complex)},
        "collections.OrderedDict": collections.OrderedDict,
        "collections.Counter": wrap(collections.Counter),
        "torch.Size": torch.Size,
        "torch.device": torch.device,
        **{f"torch._utils.{name}": wrap(getattr(torch._utils, name)) for name in _REBUILD},
        "numpy.ndarray": np.ndarray,
        "numpy.dtype": np.dtype,
        # numpy 1 and 2 call the same functions by two module names.
        **{
            f"numpy.{core}.{name}": wrap(part)
            for core in ("core", "_core")
            for name, part in parts.items()
        },
    }
