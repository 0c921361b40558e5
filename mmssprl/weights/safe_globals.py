"""What checkpoints of mmengine's trainings hold beside tensors, for ``weights_only=True``.

A training checkpoint has the history of its losses (``HistoryBuffer``, which names its own
statistics by ``getattr``) and numpy numbers. torch refuses these names unless they are listed here.
``getattr`` itself would let a file reach every function, so a stand-in takes its place.
"""

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from mmengine.logging import HistoryBuffer
from torch.serialization import add_safe_globals, clear_safe_globals, get_safe_globals

_STATISTICS = ("min", "max", "current", "mean")
_NUMPY_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")  # of numpy 1 and 2


@contextmanager
def training_types_allowed() -> Iterator[None]:
    """Let ``torch.load(weights_only=True)`` build what a training checkpoint holds."""
    before = get_safe_globals()
    add_safe_globals(_SAFE)
    try:
        yield
    finally:
        clear_safe_globals()
        add_safe_globals(before)


def _get_statistic(owner: Any, name: str) -> Any:
    if owner is not HistoryBuffer or name not in _STATISTICS:
        raise pickle.UnpicklingError(f"it asks for the attribute {name!r} of {owner!r}")
    return getattr(owner, name)


def _under_name(function: Callable[..., Any], module: str, name: str) -> Callable[..., Any]:
    """Return the function under the name that files call it by: torch goes by the attributes."""

    def call(*args: Any) -> Any:
        return function(*args)

    call.__module__, call.__name__, call.__qualname__ = module, name, name
    return call


def _list_safe_globals() -> list[Any]:
    array = np.zeros(1)
    parts: dict[str, Any] = {
        "_reconstruct": array.__reduce__()[0],
        "scalar": array[0].__reduce__()[0],
    }
    codes = np.typecodes["AllInteger"] + np.typecodes["AllFloat"] + "?SU"
    return [
        HistoryBuffer,
        _under_name(_get_statistic, "builtins", "getattr"),
        np.ndarray,
        np.dtype,
        *{type(np.dtype(code)) for code in codes},
        *(
            _under_name(part, module, name)
            for module in _NUMPY_MODULES
            for name, part in parts.items()
        ),
    ]


_SAFE = _list_safe_globals()
