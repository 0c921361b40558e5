"""Published checkpoints of any kind, read without running any code that they name."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import UserValueError
from .checkpoint_file import check_finite, existing_file, read_checkpoint
from .safe_pickle import SafeUnpickler

_DDP_PREFIX = "module."


def read_published(path: str | Path) -> dict[str, Tensor]:
    """Read all tensors of a file by name.

    They lie under ``state_dict``, under ``model``, or bare. The prefix ``module.`` is taken off
    where DistributedDataParallel put it before every name.

    Args:
        path: What ``torch.save`` (of any age) or safetensors wrote, or a ``.pkl`` of detectron2.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file cannot be read, holds no tensors by name, or values that are not
            finite.
    """
    path = Path(path)
    content = read_numpy_pickle(path) if path.suffix == ".pkl" else read_checkpoint(path)
    # A state dict may lie beside single tensors, such as the best accuracy.
    inner = (
        [content.get(name) for name in ("state_dict", "model")] if isinstance(content, dict) else []
    )
    tensors = next((found for part in (*inner, content) if (found := _tensors(part))), {})
    if not tensors:
        raise UserValueError(
            f"a checkpoint must hold tensors by name, but {path} holds a "
            f"{type(content).__name__} without; pass the file that its project published."
        )
    if all(key.startswith(_DDP_PREFIX) for key in tensors):
        tensors = {key.removeprefix(_DDP_PREFIX): value for key, value in tensors.items()}
    check_finite(tensors, path)
    return tensors


def _tensors(content: Any) -> dict[str, Tensor]:
    """The tensors and arrays of numbers in a dict; none of anything else."""
    if not isinstance(content, dict):
        return {}
    tensors = {}
    for key, value in content.items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "fi":
            # A copy, for arrays of protocol 5 can lie in read-only memory.
            value = torch.from_numpy(value.copy())
        if isinstance(value, Tensor):
            tensors[key] = value
    return tensors


def read_numpy_pickle(path: str | Path) -> Any:
    """Read a pickle of numpy arrays, numbers and strings in dicts, lists and tuples.

    Whatever else the pickle names is refused before it could be called. Pickles of Python 2 (the
    model zoo's older files) are read too.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The pickle asks for anything else, or is damaged.
    """
    path = existing_file(path)
    try:
        with path.open("rb") as file:
            return SafeUnpickler(file, encoding="latin1").load()
    except Exception as error:  # damaged pickles raise almost any class
        raise UserValueError(
            f"a pickle of weights must hold numpy arrays and plain values only, but {path} cannot "
            f"be read as that ({type(error).__name__}: {error}); download it again, or save its "
            "arrays as a torch or safetensors file."
        ) from error
