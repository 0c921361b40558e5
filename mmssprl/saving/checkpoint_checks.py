"""Checks of checkpoints: the right model and complete when read, finite when written."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from mmengine import dist
from mmengine.config import Config
from mmengine.runner import Runner
from mmengine.runner.checkpoint import CheckpointLoader
from torch import Tensor, nn

from ..config.keys import walk_used
from ..config.reading import add_place
from ..errors import UserError, UserRuntimeError, UserValueError
from ..models.unwrap import unwrap
from ..weights import read_checkpoint
from ..weights.checkpoint_file import list_faults

_STATISTICS = ("running_mean", "running_var")
_RESIZED = ("pos_embed", "relative_position_bias_table")
"""Parameters that mmpretrain's transformers resize to the image size when they are loaded."""


def check_readable(cfg: Config, task: Literal["train", "test"]) -> None:
    """Check ``load_from`` and, in training, each ``init_cfg``, before anything is built."""
    path = cfg.get("load_from")
    if path and "://" not in path:
        try:
            _read(path, cfg)
        except UserError as error:
            if task == "train" and not cfg.get("resume"):  # else the command names the file
                add_place(error, cfg, "load_from")
            raise

    if task == "train":
        for _, part in walk_used(cfg):
            if isinstance(part, Mapping) and part.get("type") == "Pretrained":
                _check_pretrained(str(part.get("checkpoint", "://")))


def _check_pretrained(path: str) -> None:
    if "://" not in path:
        _require_tensors(read_checkpoint(Path(path).expanduser(), mmap=True), path)


def check_fit_of_checkpoint(runner: Runner, task: Literal["train", "test"]) -> None:
    """Check that the checkpoint in ``load_from`` fits the model.

    A new training may load some of the weights. A test needs all and BatchNorm's statistics, a
    resumed training also counters. Queues may change their length; the model checks them.
    """
    path = runner.cfg.get("load_from")
    if not path:
        return

    state = {k.removeprefix("module."): v for k, v in _read(path, runner.cfg).items()}
    model = unwrap(runner.model)
    is_new = task == "train" and not runner.cfg.get("resume")
    needed = _STATISTICS if task == "test" else (*_STATISTICS, "_extra_state")

    # Not named_parameters(): a module may change names in its state dict.
    own = model.state_dict(keep_vars=True)
    expected = {k: v for k, v in own.items() if isinstance(v, nn.Parameter) or k.endswith(needed)}
    resized = {name for name in expected if name.endswith(_RESIZED)} if task == "test" else set()

    found = {k: v for k, v in state.items() if k in expected and k not in resized}
    if is_new and any(found[name].shape == expected[name].shape for name in found):
        return
    faults = list_faults(found, expected, resized)
    if faults:
        raise UserValueError(
            f"{path} does not fit the model of {runner.cfg.filename or 'the config'}: {faults}. "
            "Use the config next to the checkpoint, or load only its backbone by weights or "
            "model.backbone.init_cfg."
        )


def _read(path: str, cfg: Config) -> Mapping[str, Tensor]:
    """Read the weights of a checkpoint; with ``resume``, check that it has all the rest."""
    if "://" in path:
        content = CheckpointLoader.load_checkpoint(path, map_location="cpu")
    else:
        content = read_checkpoint(path, mmap=True)
    if cfg.get("resume"):
        _require_resumable(content, path, cfg)
    return _require_tensors(content, path)


def _require_resumable(content: Any, path: str, cfg: Config) -> None:
    needed = ["meta", "state_dict", "message_hub", "optimizer"]
    if cfg.get("param_scheduler"):
        needed.append("param_schedulers")
    found = content if isinstance(content, dict) else {}
    missing = [key for key in needed if not isinstance(found.get(key), dict | list)]
    if not missing and not {"epoch", "iter"} <= found["meta"].keys():
        missing = ["meta.epoch", "meta.iter"]
    if missing:
        raise UserValueError(
            f"cannot resume from {path}: it lacks {', '.join(missing)}. Give a checkpoint of the "
            "run (epoch_N.pth), or start a new run from these weights, without resume."
        )


def _require_tensors(content: Any, path: str) -> Mapping[str, Tensor]:
    state = content.get("state_dict", content) if isinstance(content, dict) else None
    items = state.items() if isinstance(state, dict) else ()
    tensors = {k: v for k, v in items if isinstance(k, str) and isinstance(v, Tensor)}
    if not tensors:
        raise UserValueError(
            f"{path} must hold named tensors, at its top or under state_dict, but has none; give a "
            "checkpoint of a training, or `convert` the file."
        )
    return tensors


class NotFiniteError(UserRuntimeError):
    """A loss, weight, buffer or optimizer state is NaN or infinite."""


def require_finite_state(runner: Runner, step: int) -> None:
    """Check weights, buffers and the optimizer's state on all ranks, after ``step`` steps.

    Collective: all ranks call it, and all raise the same NotFiniteError.
    """
    found = dist.all_gather_object(_not_finite(runner)[:1])
    if not any(found):
        return

    for hook in runner.hooks:
        # A loss of this rank that went bad earlier says more, so it raises first.
        if hasattr(hook, "hand_over"):
            hook.hand_over(runner)

    rank = next(rank for rank, names in enumerate(found) if names)
    where = f" of rank {rank}" if len(found) > 1 else ""
    raise NotFiniteError(
        f"after step {step} {found[rank][0]}{where} is not finite. Nothing was written, and the "
        "last checkpoint is kept: resume from it with a lower optim_wrapper.optimizer.lr."
    )


def _not_finite(runner: Runner) -> list[str]:
    """Return the names of all weights, buffers and states of this rank that are not finite."""
    model = unwrap(runner.model)
    state = list(model.state_dict().items())
    names: dict[Any, str] = {parameter: name for name, parameter in model.named_parameters()}
    for parameter, values in runner.optim_wrapper.optimizer.state.items():
        name = names.get(parameter, "?")
        state += [(f"the optimizer's {key} of {name}", value) for key, value in values.items()]
    state = [(k, v) for k, v in state if isinstance(v, Tensor) and v.is_floating_point()]

    # One transfer for all: each value that is read alone would wait for the device.
    device = next(model.parameters()).device
    finite = torch.stack([value.isfinite().all().to(device) for _, value in state])
    return [k for (k, _), is_finite in zip(state, finite.tolist(), strict=True) if not is_finite]
