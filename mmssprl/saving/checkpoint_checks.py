"""The checkpoint that a run begins with: is it one, of this model, and complete enough?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from mmengine.config import Config
from mmengine.runner import Runner
from mmengine.runner.checkpoint import CheckpointLoader
from torch import Tensor, nn

from ..config.keys import walk_used
from ..config.reading import add_place
from ..errors import UserError, UserValueError
from ..models.unwrap import unwrap
from ..weights import read_checkpoint, read_training_checkpoint
from ..weights.checkpoint_file import list_faults

_STATISTICS = ("running_mean", "running_var")
_RESIZED = ("pos_embed", "relative_position_bias_table")
"""Parameters that mmpretrain's transformers fit to another size of image when they load them."""


def check_readable(cfg: Config, task: Literal["train", "test"]) -> None:
    """Check the files that a run is going to load, before anything is built.

    These are ``load_from`` and, for a training, the ``init_cfg`` of parts. What comes from a URL is
    downloaded and checked later, by ``check_fit_of_checkpoint``.
    """
    path = cfg.get("load_from")
    if path and "://" not in path:
        try:
            _read(path, cfg)
        except UserError as error:
            if task == "train" and not cfg.get("resume"):  # else the command names the file
                add_place(error, cfg, "load_from")
            raise
    for _, part in walk_used(cfg) if task == "train" else ():
        if isinstance(part, Mapping) and part.get("type") == "Pretrained":
            path = str(part.get("checkpoint", "://"))
            if "://" not in path:
                _require_tensors(read_checkpoint(Path(path).expanduser(), mmap=True), path)


def check_fit_of_checkpoint(runner: Runner, task: Literal["train", "test"]) -> None:
    """Check that the first checkpoint of a run belongs to its model.

    A training that starts anew may take a part of its weights from ``load_from``, the others need
    all of them, with BatchNorm's statistics; a resumed one needs its counters too. Other buffers
    are left to the model: queues may change their length.
    """
    path = runner.cfg.get("load_from")
    if not path:
        return
    state = {k.removeprefix("module."): v for k, v in _read(path, runner.cfg).items()}
    model = unwrap(runner.model)
    starts_anew = task == "train" and not runner.cfg.get("resume")
    needed = _STATISTICS if task == "test" else (*_STATISTICS, "_extra_state")
    # Names of the state dict: a module may hide one of its own in them.
    own = model.state_dict(keep_vars=True)
    expected = {k: v for k, v in own.items() if isinstance(v, nn.Parameter) or k.endswith(needed)}
    resized = {name for name in expected if name.endswith(_RESIZED)} if task == "test" else set()
    found = {k: v for k, v in state.items() if k in expected and k not in resized}
    if starts_anew and any(found[name].shape == expected[name].shape for name in found):
        return
    faults = list_faults(found, expected, resized)
    if faults:
        raise UserValueError(
            f"{path} must hold the weights of {runner.cfg.filename or 'the config'}'s model, but "
            f"got {faults}; use the config beside the checkpoint, or start from its backbone alone "
            "by --weights or model.backbone.init_cfg."
        )


def _read(path: str, cfg: Config) -> Mapping[str, Tensor]:
    """Read the weights of the first checkpoint, after a check of what else the run needs."""
    if "://" in path:
        content = CheckpointLoader.load_checkpoint(path, map_location="cpu")
    elif cfg.get("resume"):
        content = read_training_checkpoint(path, mmap=True)
    else:
        content = read_checkpoint(path, mmap=True)
    if cfg.get("resume"):
        _require_resumable(content, path, cfg)
    return _require_tensors(content, path)


def _require_resumable(content: Any, path: str, cfg: Config) -> None:
    needed = ["meta", "state_dict", "message_hub", "optimizer"]
    if cfg.get("param_scheduler"):
        needed.append("param_schedulers")
    missing = needed
    if isinstance(content, dict):
        missing = [key for key in needed if not isinstance(content.get(key), dict | list)]
        if not missing and not {"epoch", "iter"} <= content["meta"].keys():
            missing = ["meta.epoch", "meta.iter"]
    if missing:
        raise UserValueError(
            f"a checkpoint to resume must hold {', '.join(needed)}, as a training writes them, but "
            f"{path} lacks {', '.join(missing)}; give a checkpoint of the run (epoch_N.pth), or "
            "start a new run from these weights without --resume."
        )


def _require_tensors(content: Any, path: str) -> Mapping[str, Tensor]:
    state = content.get("state_dict", content) if isinstance(content, dict) else None
    tensors = {}
    if isinstance(state, dict):
        tensors = {k: v for k, v in state.items() if isinstance(k, str) and isinstance(v, Tensor)}
    if not tensors:
        raise UserValueError(
            f"a checkpoint must hold tensors by name, at its top or under state_dict, but {path} "
            "holds none; give a checkpoint of a training, or `python -m mmssprl convert` the file."
        )
    return tensors
