"""Files of weights, read without running any code that they name."""

import pickle
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_PREFIX = "backbone."
_UNSAFE = re.compile(r"GLOBAL (\S+) was not an allowed global")
_TORCHVISION_CLASSIFIER = ("fc.weight", "fc.bias")


class _Ignored:
    """Takes the place of every object in a checkpoint that is not a tensor or a plain value."""

    def __init__(self, *args: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass


def read_checkpoint(path: str | Path) -> Any:
    """Read what ``torch.save`` wrote, or a ``.safetensors`` file, on the CPU.

    A training checkpoint also carries log buffers and numpy scalars, which ``weights_only``
    refuses; each is replaced by an empty object instead of being trusted.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is of another kind or damaged.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"weights must be an existing file, but there is no {path}.")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        return _load_tensors(path)
    except Exception as error:  # torch, pickle and safetensors have many classes of them
        raise ValueError(
            f"weights must be a file of tensors that torch.save or safetensors wrote, but {path} "
            f"cannot be read ({type(error).__name__}); copy it again, or pass another."
        ) from error


def read_state(path: str | Path) -> dict[str, Tensor]:
    """Read all tensors of a checkpoint by name, from under ``state_dict`` where there is one.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file cannot be read, holds no tensors by name, or values that are not
            finite.
    """
    content = read_checkpoint(path)
    if isinstance(content, dict):
        state = content.get("state_dict", content)
        if isinstance(state, dict):
            tensors = {key: value for key, value in state.items() if isinstance(value, Tensor)}
            if tensors:
                check_finite(tensors, path)
                return tensors
    raise ValueError(
        f"weights must hold a state dict, but {path} holds a {type(content).__name__} "
        "without tensors; pass <work dir>/<config name>_backbone.pth or a training checkpoint."
    )


def read_backbone(path: str | Path) -> dict[str, Tensor]:
    """Read the backbone's tensors: of a plain state dict, or those below ``backbone.``.

    The classifier of a torchvision file is left out.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: As ``read_state``.
    """
    state = read_state(path)
    in_model = {
        key.removeprefix(_PREFIX): value for key, value in state.items() if key.startswith(_PREFIX)
    }
    return {k: v for k, v in (in_model or state).items() if k not in _TORCHVISION_CLASSIFIER}


def check_fit(
    state: dict[str, Tensor], expected: dict[str, Tensor], *, weights: str, owner: str
) -> None:
    """Refuse weights that do not fill a model, all of it and nothing else.

    Args:
        state: The weights.
        expected: State dict of the model.
        weights: Their file, for the message.
        owner: Config or name of the model, for the message.

    Raises:
        ValueError: Keys or shapes that differ. BatchNorm's step counter may be missing, as in old
            files; frozen features do not depend on it.
    """
    missing = [k for k in expected if k not in state and not k.endswith("num_batches_tracked")]
    unexpected = [key for key in state if key not in expected]
    reshaped = [
        f"{key} {tuple(state[key].shape)} instead of {tuple(expected[key].shape)}"
        for key in expected
        if key in state and state[key].shape != expected[key].shape
    ]
    faults = [
        f"{len(keys)} {what} ({', '.join(keys[:3])}{', ...' if len(keys) > 3 else ''})"
        for what, keys in (
            ("missing", missing),
            ("unexpected", unexpected),
            ("of another shape", reshaped),
        )
        if keys
    ]
    if faults:
        raise ValueError(
            f"every weight of {weights} must fit the backbone of {owner}, but got "
            f"{', '.join(faults)}; pass --config with the architecture they were trained with."
        )


def check_finite(state: dict[str, Tensor], path: str | Path) -> None:
    """Refuse NaN and infinity.

    Raises:
        ValueError: Names how many tensors hold them, and the first.
    """
    bad = [key for key, value in state.items() if not torch.isfinite(value).all()]
    if bad:
        raise ValueError(
            f"all weights must be finite, but {len(bad)} of {len(state)} tensors of {path} "
            f"hold NaN or infinity (first {bad[0]}); take a checkpoint from before the "
            "training diverged."
        )


def _load_tensors(path: Path) -> Any:
    stand_ins: list[Any] = []
    while True:  # each round replaces one more kind of object, in files of any age
        try:
            with torch.serialization.safe_globals(stand_ins):
                return torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            found = _UNSAFE.search(str(error))
            if found is None:
                raise
            # torch's message leaves out the module of builtins: getattr for builtins.getattr.
            name = found[1] if "." in found[1] else f"builtins.{found[1]}"
            if (_Ignored, name) in stand_ins:
                raise
            stand_ins.append((_Ignored, name))
