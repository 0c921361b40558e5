"""What a checkpoint holds beside weights, as tensors and plain values that run no code.

mmengine keeps the history of each logged scalar in an object of its own, and some numbers as
numpy's: plain ``torch.load(weights_only=True)`` refuses both.
"""

import copy
from collections import Counter, OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.logging import HistoryBuffer

from ..errors import UserTypeError

_PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.Tensor, torch.Size, torch.dtype)
_HISTORY = ("log_history", "count_history", "max_length")


def as_plain(value: Any, name: str = "checkpoint") -> Any:
    """Return a value with everything in it plain; histories become dicts of their arrays.

    What only its own class could read is a TypeError, which tells its place, ``name``.
    """
    if isinstance(value, HistoryBuffer):
        return dict(zip(_HISTORY, (*map(as_plain, value.data), value.max_length), strict=True))
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return torch.from_numpy(value.astype(value.dtype.newbyteorder("=")))
    if isinstance(value, np.ndarray | np.generic):
        return as_plain(value.tolist(), name)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        # Of an OrderedDict its attributes too: the versions of a state dict's layers.
        plain: Any = copy.copy(value) if type(value) in (dict, OrderedDict, Counter) else {}
        for key, each in value.items():  # a Counter's update() would add to what it counts
            plain[key] = as_plain(each, f"{name}.{key}")
        return plain
    if isinstance(value, list | tuple | set | frozenset) and type(value) is not torch.Size:
        items = [as_plain(each, f"{name}[{i}]") for i, each in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, _PLAIN):
        return value
    raise UserTypeError(
        f"a checkpoint must hold tensors and plain values only, but {name} is a "
        f"{type(value).__module__}.{type(value).__name__}; keep a number, a string, a list or a "
        "dict of them in its place."
    )


def restore_histories(message_hub: Any) -> None:
    """Give mmengine's message hub the histories back that ``as_plain`` has taken apart."""
    scalars = message_hub.get("log_scalars", {}) if isinstance(message_hub, dict) else {}
    for name, history in scalars.items():
        if isinstance(history, dict) and history.keys() == set(_HISTORY):
            logs, counts = (history[key].cpu().numpy() for key in _HISTORY[:2])
            scalars[name] = HistoryBuffer(logs, counts, history["max_length"])
