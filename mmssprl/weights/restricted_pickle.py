"""A stand-in for the module ``pickle`` that builds tensors and plain containers, nothing else.

``torch.load(weights_only=True)`` refuses a file that names anything else, and training checkpoints
do: log buffers, numpy scalars, arguments. Here each such object becomes an empty one, and no code
that a file names is ever called. For ``torch.load``'s argument ``pickle_module``.
"""

import pickle
from typing import Any

import torch

_ALLOWED = {
    ("collections", "OrderedDict"),
    ("torch", "Size"),
    ("torch._utils", "_rebuild_parameter"),
    ("torch._utils", "_rebuild_tensor"),
    ("torch._utils", "_rebuild_tensor_v2"),
}

__all__ = ["Unpickler", "UnpicklingError", "load"]

UnpicklingError = pickle.UnpicklingError


class _Ignored:
    """Takes the place of every other object, and whatever the file puts into it."""

    def __init__(self, *args: object) -> None:
        pass

    def __call__(self, *args: object) -> "_Ignored":
        return self

    def __setstate__(self, state: object) -> None:
        pass

    def __setitem__(self, key: object, value: object) -> None:
        pass

    def append(self, item: object) -> None:
        pass

    def extend(self, items: object) -> None:
        pass


class Unpickler(pickle.Unpickler):
    """Resolves the names of what tensors are made of; torch itself resolves storages."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the object that a file names, or the stand-in."""
        is_dtype = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if is_dtype or (module, name) in _ALLOWED:
            return super().find_class(module, name)
        return _Ignored


def load(file: Any, **options: Any) -> Any:
    """Read one pickle from an open file, as ``pickle.load``."""
    return Unpickler(file, **options).load()
