"""Checkpoint hooks that survive kills, full disks and NaNs, and export the backbone."""

import copy
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.dist import get_world_size, is_main_process
from mmengine.hooks import CheckpointHook, EMAHook
from mmengine.logging import HistoryBuffer
from mmengine.optim import OptimWrapperDict
from mmengine.runner import Runner
from mmengine.runner.checkpoint import weights_to_cpu
from torch import nn

from ..console.log_line import LogLine
from ..console.quiet import errors_alone
from ..errors import UserTypeError, UserValueError
from ..models import PretrainingModel
from ..models.unwrap import unwrap
from ..registry import HOOKS
from ..system.outputs import num_checkpoints, require_space, sweep_parts, whole_file, write_whole
from ..system.stopping import signals
from ..weights import write_description
from .checkpoint_checks import require_finite_state
from .run_files import POINTER

STEP_FILE = "step_{}.pth"
"""Written by `SaveAndStopHook` between two checkpoints of the hooks below."""
_PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.Tensor, torch.Size, torch.dtype)
_HISTORY = ("log_history", "count_history", "max_length")
"""Keys of a history of scalars in a file."""
_BEST = "best_ckpt"
"""Start of the keys of mmengine's message hub that name the best checkpoints."""


@HOOKS.register_module()
class SafeCheckpointHook(CheckpointHook):
    """mmengine's CheckpointHook, for runs that must survive any interruption.

    * Outdated checkpoints are deleted after ``last_checkpoint`` names the new one.
    * Nothing is written while a weight, buffer or optimizer state on any rank is not finite.
    * Files hold tensors and plain values: ``torch.load(weights_only=True)`` reads them.

    Raises:
        OSError: A resumed run, before its first step, if the disk has no room for its checkpoints.
        ValueError: ``out_dir`` is set, or there are several optimizers.
    """

    file_backend: Any
    keep_ckpt_ids: deque[int]
    last_ckpt: str | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.out_dir is not None:
            raise UserValueError(
                f"CheckpointHook.out_dir must not be set, but got {self.out_dir!r}: runs resume "
                "from work_dir. Set work_dir to that folder instead."
            )

    def check(self, runner: Runner) -> None:
        """Refuse several optimizers, and a resumed run without room, after deleting leftovers."""
        if isinstance(runner.optim_wrapper, OptimWrapperDict):
            raise UserValueError(
                f"optim_wrapper must have one optimizer, but got {len(runner.optim_wrapper)}; set "
                "other learning rates of parts by its paramwise_cfg."
            )
        if not is_main_process():
            return

        folder = Path(runner.work_dir)
        for part in sweep_parts(folder):
            runner.logger.info(f"deleted {part.name}, which a killed process left unfinished.")
        if runner.iter:  # new runs are checked before anything is built
            left = runner.max_iters - runner.iter
            if self.by_epoch:
                left = runner.max_epochs - runner.epoch
            # Existing checkpoints, step_*.pth too, are deleted as new ones are written.
            kept = len(runner.message_hub.runtime_info.get("keep_ckpt_ids", ()))
            if any(folder.glob(STEP_FILE.format("*"))):
                kept += 1
            num = num_checkpoints(left, vars(self)) - kept
            require_space(folder, max(1, num) * checkpoint_bytes(runner))

    def before_train(self, runner: Runner) -> None:
        """Check the run, and look for its checkpoints."""
        self.check(runner)
        with errors_alone(runner.logger):
            super().before_train(runner)
        if self.save_best:
            self._take_best_files(runner)

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Turn the histories back into mmengine's class."""
        scalars = (checkpoint.get("message_hub") or {}).get("log_scalars") or {}
        for name, history in scalars.items():
            # mmengine's own hook saves objects.
            if isinstance(history, dict) and history.keys() == {*_HISTORY}:
                logs, counts, most = (history[key] for key in _HISTORY)
                scalars[name] = HistoryBuffer(logs.cpu().numpy(), counts.cpu().numpy(), most)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Reduce the checkpoint to tensors and plain values."""
        checkpoint.update(as_plain(checkpoint))

    def after_train(self, runner: Runner) -> None:
        """Check the weights before the other hooks export them.

        If a hook has ended the training early, save its last step, which mmengine does not.
        """
        require_finite_state(runner, runner.iter)
        if self.save_last and getattr(runner.train_loop, "stop_training", False):
            step = runner.epoch if self.by_epoch else runner.iter
            if step and self.last_ckpt != self._path(step):  # a loop of iterations counts no epochs
                meta = {"epoch": runner.epoch, "iter": runner.iter}
                self._save_checkpoint_with_step(runner, step, meta)
        super().after_train(runner)

    def _save_checkpoint_with_step(self, runner: Runner, step: int, meta: dict[str, Any]) -> None:
        """Write first, then delete; mmengine deletes first. Called on every rank."""
        signals.saves()
        require_finite_state(runner, meta["iter"])

        outdated: list[int] = []
        if self.max_keep_ckpts > 0:
            steps = [each for each in self.keep_ckpt_ids if each != step] + [step]
            outdated = steps[: -self.max_keep_ckpts]
            self.keep_ckpt_ids = deque(steps[-self.max_keep_ckpts :], self.max_keep_ckpts)
            # With the outdated ones, which a resumed run deletes if this process is killed before.
            runner.message_hub.update_info("keep_ckpt_ids", steps)
        self.last_ckpt = self._path(step)
        runner.message_hub.update_info("last_ckpt", self.last_ckpt)

        self._write(runner, step, meta)
        if is_main_process():  # the others wait for it
            signals.progress()
            write_whole(Path(runner.work_dir) / POINTER, self.last_ckpt)
            for each in outdated:
                Path(self._path(each)).unlink(missing_ok=True)

    def _write(self, runner: Runner, step: int, meta: dict[str, Any]) -> None:
        runner.save_checkpoint(
            self.out_dir,
            self.filename_tmpl.format(step),
            self.file_client_args,
            save_optimizer=self.save_optimizer,
            save_param_scheduler=self.save_param_scheduler,
            meta=meta,
            by_epoch=self.by_epoch,
            backend_args=self.backend_args,
            **self.args,
        )

    def _path(self, step: int) -> str:
        return self.file_backend.join_path(self.out_dir, self.filename_tmpl.format(step))

    def _save_best_checkpoint(self, runner: Runner, metrics: dict[str, Any]) -> None:
        """Write the better one, then delete the old one; mmengine deletes first."""
        if not self.save_best:
            return
        require_finite_state(runner, runner.iter)
        before = self._best_files(runner)
        self._remember_best({})  # mmengine deletes the files that it remembers
        super()._save_best_checkpoint(runner, metrics)
        best = self._best_files(runner)
        self._remember_best(best)
        if is_main_process():
            for path in {*before.values()} - {*best.values()}:
                if self.file_backend.isfile(path):
                    self.file_backend.remove(path)

    def _take_best_files(self, runner: Runner) -> None:
        """Look for the best checkpoints in this folder.

        A run that was copied or moved remembers the paths of its old folder, and would delete them.
        """
        for key, path in self._best_files(runner).items():
            here = self.file_backend.join_path(self.out_dir, Path(path).name)
            runner.message_hub.update_info(key, here)
        self._remember_best(self._best_files(runner))

    def _best_files(self, runner: Runner) -> dict[str, str]:
        """Return the best checkpoints by mmengine's key: of the score, or one for each."""
        info = runner.message_hub.runtime_info
        return {key: path for key, path in info.items() if key.startswith(_BEST)}

    def _remember_best(self, files: Mapping[str, str]) -> None:
        if len(self.key_indicators) == 1:
            self.best_ckpt_path = files.get(_BEST)
        else:
            keys = self.key_indicators
            self.best_ckpt_path_dict = {key: files.get(f"{_BEST}_{key}") for key in keys}


@HOOKS.register_module()
class PretrainCheckpointHook(SafeCheckpointHook):
    """SafeCheckpointHook that saves state per rank and exports the backbone.

    The model gathers its state per rank, such as queues, before each save, so that one checkpoint
    resumes all ranks. After the last epoch the backbone is written to
    ``<work_dir>/<config name>_backbone.pth``, a plain state dict with torchvision's names. With an
    EMAHook it has the averaged weights, as the checkpoints have.
    """

    def before_train(self, runner: Runner) -> None:
        """Write the description of the backbone."""
        super().before_train(runner)
        if is_main_process():
            write_description(backbone_file(runner), runner.cfg)

    def _write(self, runner: Runner, step: int, meta: dict[str, Any]) -> None:
        model = unwrap(runner.model)
        model.before_checkpoint()
        super()._write(runner, step, meta)
        model.after_checkpoint()

    def after_train(self, runner: Runner) -> None:
        """Write the backbone's weights."""
        super().after_train(runner)
        if is_main_process():
            path = save_backbone(runner)
            runner.logger.info(LogLine(f"Backbone weights: {path}", f"backbone weights: {path}"))


def checkpoint_bytes(runner: Runner, num_ranks: int | None = None) -> int:
    """Estimate the size of a checkpoint of all ranks, even before the optimizer has state."""
    model = unwrap(runner.model)
    if isinstance(model, PretrainingModel):
        num_bytes = model.checkpoint_bytes(num_ranks or get_world_size())
    else:
        num_bytes = sum(value.nbytes for value in model.state_dict().values())
    for group in runner.optim_wrapper.optimizer.param_groups:
        num_moments = 2 if "betas" in group else int(bool(group.get("momentum")))
        num_bytes += num_moments * sum(each.nbytes for each in group["params"])
    return num_bytes


def backbone_file(runner: Runner, mark: str = "") -> Path:
    """Return the path of a run's exported backbone, with a ``mark`` such as "best"."""
    name = Path(runner.cfg.filename or "pretraining").stem
    return Path(runner.work_dir) / f"{name}{mark and '_'}{mark}_backbone.pth"


def deployed_model(runner: Runner) -> nn.Module:
    """Return the model with the weights that mmengine saves: averaged ones if it averages."""
    for hook in runner.hooks:
        if isinstance(hook, EMAHook):
            return hook.ema_model.module
    return unwrap(runner.model)


def save_backbone(runner: Runner, mark: str = "") -> Path:
    """Write the backbone's weights as a plain state dict, and their description ``NAME.json``."""
    path = backbone_file(runner, mark)
    write_description(path, runner.cfg)
    source: Any = deployed_model(runner)
    weights = weights_to_cpu(source.backbone.state_dict())
    # Training runs channels-last; readers expect torch's default layout.
    with whole_file(path, "wb") as file:
        torch.save({name: value.contiguous() for name, value in weights.items()}, file)
    return path


def as_plain(value: Any, name: str = "checkpoint") -> Any:
    """Return a value of a checkpoint as tensors and plain values, so that reading runs no code.

    Raises:
        TypeError: It holds an object of another class.
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
        # copy() keeps an OrderedDict's attributes, the layer versions of a state dict.
        plain: Any = copy.copy(value) if type(value) in (dict, OrderedDict, Counter) else {}
        for key, each in value.items():  # not update(), with which a Counter adds
            plain[key] = as_plain(each, f"{name}.{key}")
        return plain
    if isinstance(value, list | tuple | set | frozenset) and type(value) is not torch.Size:
        items = [as_plain(each, f"{name}[{i}]") for i, each in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) else items

    if isinstance(value, _PLAIN):
        return value
    raise UserTypeError(
        f"a checkpoint must hold only tensors and plain values, but {name} is a "
        f"{type(value).__module__}.{type(value).__name__}; store numbers, strings, lists or dicts."
    )
