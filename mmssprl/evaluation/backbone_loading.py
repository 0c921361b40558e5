"""Backbones from configs and from the files that training leaves behind."""

import logging
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from torch import Tensor, nn

from mmssprl.registry import MODELS

RANDOM = "random"
"""Stands for a weights file: the backbone as its ``init_weights`` leaves it."""

_PREFIX = "backbone."
_TORCHVISION_CLASSIFIER = ("fc.weight", "fc.bias")


class _Ignored:
    """Takes the place of every object in a checkpoint that is not a tensor or a plain value."""

    def __init__(self, *args: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass


def find_config(weights: str, config: str | None) -> Config:
    """Read the config that describes the backbone of ``weights``.

    Args:
        weights: Weights file, or ``'random'``.
        config: Config file; None takes the only ``*.py`` in the folder of ``weights``, which is
            where training dumps it.

    Raises:
        ValueError: No config given and not exactly one beside the weights, or a config without
            ``model.backbone``.
        FileNotFoundError: The config or the weights file does not exist.
    """
    if config is None and weights == RANDOM:
        raise ValueError(
            "config must be given for random weights, but got none; "
            "pass --config with the architecture to draw them for."
        )
    if weights != RANDOM and not Path(weights).is_file():
        raise FileNotFoundError(
            f"weights must be an existing file or '{RANDOM}', but there is no {weights}; "
            "training writes <work dir>/<config name>_backbone.pth."
        )
    if config is None:
        folder = Path(weights).parent
        found = sorted(folder.glob("*.py"))
        if len(found) != 1:
            names = [path.name for path in found]
            raise ValueError(
                f"the folder of the weights must hold exactly one config, but {folder} holds "
                f"{names or 'none'}; pass --config."
            )
        config = str(found[0])
    if not Path(config).is_file():
        raise FileNotFoundError(f"config must be an existing file, but there is no {config}.")
    cfg = Config.fromfile(config)
    if not (cfg.get("model") or {}).get("backbone"):
        raise ValueError(
            f"a config must describe its backbone under model.backbone, but {config} does not."
        )
    return cfg


def load_backbone(weights: str, cfg: Config, *, seed: int = 0) -> nn.Module:
    """Build ``cfg.model.backbone`` and fill it with weights, all of them or none.

    Args:
        weights: A plain state dict of the backbone, a training checkpoint (keys that begin with
            ``backbone.``), or ``'random'``. The classifier of a torchvision file is left out.
        cfg: Config with ``model.backbone``.
        seed: Seed of random weights; the global generator is left as it was.

    Returns:
        The backbone in eval mode on the CPU.

    Raises:
        ValueError: A file that holds no weights, keys or shapes that do not fit the backbone, or
            values that are not finite.
    """
    spec = cfg.model.backbone.to_dict()
    spec.pop("init_cfg", None)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        with DefaultScope.overwrite_default_scope("mmssprl"):
            backbone = MODELS.build(spec)
        if weights == RANDOM:
            with _quiet():
                backbone.init_weights()
    if weights != RANDOM:
        state = _read_state(weights)
        _check_fit(state, backbone.state_dict(), weights, cfg.filename)
        _check_finite(state, weights)
        backbone.load_state_dict(state, strict=False)
    # mmpretrain's train() returns nothing, so eval() does not chain.
    backbone.eval()
    return backbone


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep mmengine from printing three lines about every tensor that it initialises."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)


def _read_state(path: str) -> dict[str, Tensor]:
    try:
        content: Any = _load_tensors(path)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise ValueError(
            f"weights must be a file of tensors that torch.save wrote, but {path} cannot be read "
            f"({type(error).__name__}); copy it again, or pass another."
        ) from error
    if isinstance(content, dict):
        content = content.get("state_dict", content)
        in_model = {
            key[len(_PREFIX) :]: value
            for key, value in content.items()
            if isinstance(key, str) and key.startswith(_PREFIX)
        }
        state = in_model or content
        tensors = {key: value for key, value in state.items() if isinstance(value, Tensor)}
        if tensors:
            return {k: v for k, v in tensors.items() if k not in _TORCHVISION_CLASSIFIER}
    raise ValueError(
        f"weights must hold a state dict, but {path} holds a {type(content).__name__} "
        "without tensors; pass <work dir>/<config name>_backbone.pth or a training checkpoint."
    )


def _load_tensors(path: str) -> Any:
    """Read ``path`` without running any code that it names.

    A training checkpoint also carries log buffers and numpy scalars, which ``weights_only``
    refuses; each is replaced by an empty object instead of being trusted.
    """
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
        stand_ins: list[Any] = [(_Ignored, name) for name in names]
        with torch.serialization.safe_globals(stand_ins):
            return torch.load(path, map_location="cpu", weights_only=True)


def _check_fit(
    state: dict[str, Tensor], expected: dict[str, Tensor], weights: str, config: str | None
) -> None:
    # Files older than BatchNorm's step counter lack it; it has no influence on frozen features.
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
            f"every weight of {weights} must fit the backbone of {config}, but got "
            f"{', '.join(faults)}; pass --config with the architecture they were trained with."
        )


def _check_finite(state: dict[str, Tensor], weights: str) -> None:
    bad = [key for key, value in state.items() if not torch.isfinite(value).all()]
    if bad:
        raise ValueError(
            f"all weights must be finite, but {len(bad)} of {len(state)} tensors of {weights} "
            f"hold NaN or infinity (first {bad[0]}); take a checkpoint from before the "
            "training diverged."
        )
