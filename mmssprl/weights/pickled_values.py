"""What pickles of weights are made of beside plain values: arrays, sets, log buffers.

Nothing here takes memory that the pickle's own bytes do not fill, or an object whose inside they
choose.
"""

import math
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from mmengine.logging import HistoryBuffer

BUFFER = "mmengine.logging.history_buffer.HistoryBuffer"
STATISTICS = ("min", "max", "current", "mean")
"""Methods that a log buffer keeps."""
_NUMBERS = re.compile(r"b1|[iu][1248]|f[248]|c8|c16|[SU]\d{1,9}")
"""numpy's names of numbers and text; objects and records are not read."""
_MAX_KEY = 100
"""Values in a key: a tuple computes its hash at every use, anew from all that is in it."""
_MAX_DIMS = 64
"""As numpy's own."""


class RefusedError(UnpicklingError):
    """A file asks for what could run code, or for memory that its bytes do not fill."""


class UnknownError(RefusedError):
    """A file asks for an object or a function that is not read."""

    def __init__(self, what: str) -> None:
        super().__init__(f"it asks for {ascii(what[:100])[1:-1]}, and no code of a file is run")


class Ignored:
    """Stands where a file has an object that is not read."""


class _DType:
    """numpy's kind of numbers: a pickle gives its name first, and its byte order as a state."""

    order = "="

    def __init__(self, name: Any, *_: Any) -> None:
        if not isinstance(name, str) or not _NUMBERS.fullmatch(name):
            raise UnknownError(f"numpy's kind {name if isinstance(name, str) else type(name)}")
        self.name = name


def set_state(target: Any, state: Any) -> None:
    """Set the state of an object, where its kind has one that is read.

    Raises:
        RefusedError: It has none, or its parts do not fit each other.
    """
    if isinstance(target, Ignored) or isinstance(state, Ignored):
        return
    if isinstance(target, OrderedDict):
        if "_metadata" in state:  # versions of a state dict's layers
            target._metadata = state["_metadata"]  # type: ignore[attr-defined]
    elif isinstance(target, _DType):
        target.order = state[1]
    elif type(target) is np.ndarray:
        shape, kind, is_fortran, data = state[-4:]
        dtype, data = _numbers(kind, shape, data)
        whole = (1, tuple(shape), dtype, int(bool(is_fortran)), bytes(data))
        target.__setstate__(whole)  # type: ignore[arg-type]
    elif type(target) is HistoryBuffer:
        parts = [state["_log_history"], state["_count_history"]]
        if not all(isinstance(each, np.ndarray) and each.dtype.kind in "biuf" for each in parts):
            raise RefusedError("it has a history of something else than numbers")
        HistoryBuffer.__init__(target, *parts, state["max_length"])  # type: ignore[arg-type]
    else:
        raise UnknownError("the state of something that has none")


def sizes_of(values: Sequence[Any]) -> tuple[int, ...]:
    """Return the sides of an array, or how far apart its numbers lie.

    Raises:
        RefusedError: They are something else.
    """
    sizes = tuple(values) if len(values) <= _MAX_DIMS else (-1,)
    if not all(type(each) is int and 0 <= each < 2**63 for each in sizes):
        raise RefusedError("it has an array without a shape")
    return sizes


def make_set(items: Iterable[Any] = ()) -> set:
    """Return a set of keys that are allowed."""
    return set(map(_allowed_key, items))


def set_items(target: dict, items: Sequence[Any]) -> dict:
    """Put keys and values, which alternate, into a dict, and return it."""
    for key, value in zip(items[::2], items[1::2], strict=True):
        target[_allowed_key(key)] = value
    return target


def _allowed_key(key: Any) -> Any:
    parts = [key]
    for part in parts:  # which grow
        if isinstance(part, tuple):
            parts += part[:_MAX_KEY]
        if len(parts) > _MAX_KEY:
            raise RefusedError("it has a large tuple as a key")
    return key


def _numbers(kind: Any, shape: Sequence[int], data: Any) -> tuple[np.dtype, bytes | bytearray]:
    """Return numpy's kind and the bytes of an array, if they fill its shape."""
    if not isinstance(kind, _DType):
        raise UnknownError("an array of objects")
    data = data.encode("latin1") if isinstance(data, str) else data  # of Python 2
    dtype = np.dtype(kind.name).newbyteorder(kind.order)  # type: ignore[arg-type]
    if (
        not isinstance(data, bytes | bytearray)
        or len(data) != math.prod(sizes_of(shape)) * dtype.itemsize
    ):
        raise RefusedError("it has an array of another size than its bytes")
    return dtype, data


def _unfilled(*_: Any) -> np.ndarray:
    return np.empty(0, "V1")


def _scalar(kind: Any, data: Any) -> Any:
    dtype, data = _numbers(kind, (), data)
    return np.frombuffer(data, dtype)[0]


def _array(data: Any, kind: Any, shape: Any, order: Any) -> np.ndarray:
    dtype, data = _numbers(kind, shape, data)
    return np.frombuffer(data, dtype).reshape(shape, order=order)


def _bytes(text: str, encoding: str) -> bytes:
    # Protocol 2 writes bytes as text.
    if encoding != "latin1":
        raise UnknownError(f"text in the encoding {encoding!r}")
    return text.encode(encoding)


def _ordered(pairs: Iterable[Any] = ()) -> OrderedDict:
    ordered: OrderedDict = OrderedDict()
    set_items(ordered, [each for key, value in pairs for each in (key, value)])
    return ordered


def _counter(counts: Any = ()) -> Counter:
    return Counter(dict(counts) if isinstance(counts, dict) else make_set(counts))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    BUFFER: lambda: HistoryBuffer(),
    "_codecs.encode": _bytes,
    "builtins.bytes": lambda: b"",  # the empty ones of protocol 2
    "builtins.set": make_set,
    "builtins.frozenset": lambda *items: frozenset(make_set(*items)),
    "builtins.complex": complex,
    "collections.OrderedDict": _ordered,
    "collections.Counter": _counter,
    "torch.Size": torch.Size,
    "torch.device": torch.device,
    "numpy.dtype": _DType,
    "numpy.ndarray": _unfilled,  # of which no more than the name is used
    "numpy.core.multiarray._reconstruct": _unfilled,
    "numpy.core.multiarray.scalar": _scalar,
    "numpy.core.numeric._frombuffer": _array,
}
"""Name of a function -> what is called in its place."""
