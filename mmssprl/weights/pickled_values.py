"""What the names in a pickle of weights stand for: arrays, sets, log buffers, kinds of tensors.

Nothing here takes memory that the pickle's own bytes do not fill.
"""

import math
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from mmengine.logging import HistoryBuffer

_STATISTICS = ("min", "max", "current", "mean")  # methods that a log buffer keeps
_NUMBERS = re.compile(r"b1|[iu][1248]|f[248]|c8|c16|[SU]\d{1,9}")
"""numpy's names of numbers and text; objects and records are not read."""
_MAX_DIMS = 64  # as numpy's own
_STORAGES = {
    **{"Double": torch.float64, "Float": torch.float32, "Half": torch.float16},
    **{"BFloat16": torch.bfloat16, "Long": torch.int64, "Int": torch.int32, "Short": torch.int16},
    **{"Char": torch.int8, "Byte": torch.uint8, "Untyped": torch.uint8, "Bool": torch.bool},
    **{"ComplexDouble": torch.complex128, "ComplexFloat": torch.complex64},
}
"""What torch calls its storages -> what they hold."""


class RefusedError(UnpicklingError):
    """A file asks for what could run code, or for memory that its bytes do not fill."""


class UnknownError(RefusedError):
    """A file asks for an object or a function that is not read."""

    def __init__(self, what: str) -> None:
        super().__init__(f"it asks for {ascii(what[:100])[1:-1]}, and no code of a file is run")


class Ignored:
    """Stands where a file has an object that is not read."""


def named(name: str) -> Any:
    """Return what a name stands for that is not called, such as torch's kind of a storage."""
    package, _, last = name.rpartition(".")
    if package in ("torch", "torch.cuda", "torch.storage") and last.endswith("Storage"):
        found = _STORAGES.get(last.removesuffix("Storage"))
    else:
        found = vars(torch).get(last) if package == "torch" else _CLASSES.get(name)
    if not isinstance(found, torch.dtype | type):
        raise UnknownError(name)
    return found


def sizes_of(values: Sequence[Any]) -> tuple[int, ...]:
    """Return the sides of an array, or how far apart its numbers lie, if they are that."""
    sizes = tuple(values) if len(values) <= _MAX_DIMS else (-1,)
    if not all(type(each) is int and 0 <= each < 2**63 for each in sizes):
        raise RefusedError("it has an array without a shape")
    return sizes


def _kind(name: Any, *_: Any, state: Any = None) -> np.dtype:
    if not isinstance(name, str) or not _NUMBERS.fullmatch(name):
        raise UnknownError(f"numpy's kind {name if isinstance(name, str) else type(name)}")
    return np.dtype(name).newbyteorder(state[1] if state else "=")


def _bytes_of(data: Any, kind: Any, shape: Sequence[int]) -> bytes | bytearray:
    """Return the bytes of an array, if they fill its shape."""
    if not isinstance(kind, np.dtype):
        raise UnknownError("an array of objects")
    data = data.encode("latin1") if isinstance(data, str) else data  # of Python 2
    num_bytes = math.prod(sizes_of(shape)) * kind.itemsize
    if not isinstance(data, bytes | bytearray) or len(data) != num_bytes:
        raise RefusedError("it has an array of another size than its bytes")
    return data


def _rebuilt_array(owner: Any, *_: Any, state: Any) -> np.ndarray:
    if owner is not np.ndarray:
        raise UnknownError("a kind of array of its own")
    shape, kind, is_fortran, data = state[-4:]
    array = np.empty(0, "V1")
    whole = (1, tuple(shape), kind, int(bool(is_fortran)), bytes(_bytes_of(data, kind, shape)))
    array.__setstate__(whole)  # type: ignore[arg-type]
    return array


def _array(data: Any, kind: Any, shape: Any, order: Any) -> np.ndarray:
    return np.frombuffer(_bytes_of(data, kind, shape), kind).reshape(shape, order=order)


def _scalar(kind: Any, data: Any) -> Any:
    return np.frombuffer(_bytes_of(data, kind, ()), kind)[0]


def _bytes(text: str = "", encoding: str = "latin1") -> bytes:
    # Protocol 2 writes bytes as text, and those without a byte as a call without arguments.
    if encoding != "latin1":
        raise UnknownError(f"text in the encoding {encoding!r}")
    return text.encode(encoding)


def _ordered(pairs: Any = (), *, state: Any = None) -> OrderedDict:
    ordered: OrderedDict = OrderedDict(pairs)
    if state and "_metadata" in state:  # versions of a state dict's layers
        ordered._metadata = state["_metadata"]  # type: ignore[attr-defined]
    return ordered


def _buffer(*, state: Any) -> HistoryBuffer:
    parts = [state["_log_history"], state["_count_history"]]
    if not all(isinstance(each, np.ndarray) and each.dtype.kind in "biuf" for each in parts):
        raise RefusedError("it has a history of something else than numbers")
    return HistoryBuffer(*parts, state["max_length"])  # type: ignore[arg-type]


def _statistic(owner: Any, name: Any) -> None:
    # Log buffers name their own methods, which every buffer has.
    if owner is not HistoryBuffer or name not in _STATISTICS:
        raise UnknownError("an attribute")


_CLASSES = {
    "numpy.ndarray": np.ndarray,
    "mmengine.logging.history_buffer.HistoryBuffer": HistoryBuffer,
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "builtins.getattr": _statistic,
    "_codecs.encode": _bytes,
    "builtins.bytes": _bytes,
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "builtins.complex": complex,
    "collections.Counter": lambda counts=(): Counter(counts),
    "torch.Size": lambda sizes: torch.Size(sizes_of(sizes)),
    "torch.device": torch.device,
    "numpy.core.multiarray.scalar": _scalar,
    "numpy.core.numeric._frombuffer": _array,
}
"""Name of a function -> what is called in its place."""
OBJECTS: Mapping[str, Callable[..., Any]] = {
    "mmengine.logging.history_buffer.HistoryBuffer": _buffer,
    "collections.OrderedDict": _ordered,
    "numpy.dtype": _kind,
    "numpy.core.multiarray._reconstruct": _rebuilt_array,
}
"""Those that take a ``state``, too."""
