"""The log of a training: lines, bounded histories, batched reads of losses, warnings."""

import math
import time
from collections import OrderedDict, deque
from typing import Any

import torch
from mmengine.device import get_device
from mmengine.hooks import Hook, LoggerHook, RuntimeInfoHook
from mmengine.runner import LogProcessor, Runner
from torch import Tensor

from ..console.live_line import rarer_s
from ..console.log_line import LogLine, console_line, epoch_head, relative_name
from ..console.wording import wrapped
from ..errors import UserValueError
from ..models import LossTerm, PretrainingModel
from ..models.unwrap import unwrap
from ..registry import HOOKS, LOG_PROCESSORS
from ..saving.checkpoint_checks import NotFiniteError
from ..system.environment import peak_resident_mib
from .history import Record
from .troubles import find_troubles

KEPT = 1000
"""Values kept of each scalar, more than the windows of all shipped configs."""
_ALL_S = 60.0
"""Time in which the console shows all training lines."""
_KEPT_FOR = {"epochs_done": 4.0, "progress": 0.12}
"""MonitorHook keeps lines of so many epochs and of this share of the training."""


@LOG_PROCESSORS.register_module(name=["PretrainLogProcessor", "FinetuneLogProcessor"])
class PretrainLogProcessor(LogProcessor):
    """mmengine's LogProcessor with more scalars and a short text for the console.

    * ``time`` and ``data_time`` are means over all steps since the last line, because on a GPU the
      host waits for the device only there.
    * ``images_per_second`` counts the images of all ranks.
    * ``memory`` without a GPU is the peak resident size of this process in MiB.
    * ``eta`` in seconds, ``epochs_done``, and ``progress``, the share of the training.
    * ``relative_...`` of each loss term, see ``LossTerm.relative``.

    Args:
        key: Validation score to show; '' shows all as mmengine does.
        name: Its name on the console.
        factor: Factor from the score to per cent.

    Raises:
        ValueError: ``log_with_hierarchy`` is True; losses would have other names.

    Attributes:
        latest: Scalars of the last training line, for hooks that run after LoggerHook.
    """

    latest: dict | None = None
    _num_steps = 0  # since the last line
    _last_step: int | None = None
    _first_s: float | None = None  # when the first line was written
    _shown_s = 0.0  # when the console last had a line

    def __init__(self, key: str = "", name: str = "", factor: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.log_with_hierarchy:
            raise UserValueError("log_with_hierarchy must be False, but got True; leave it out.")
        self.key = key
        self.name = name
        self.factor = factor

    def get_log_after_iter(self, runner: Runner, batch_idx: int, mode: str) -> tuple[dict, str]:
        """Return the scalars and the text of one line."""
        if mode == "train":
            step = runner.iter + 1
            # The first line of a process counts from the start of this epoch.
            self._num_steps = batch_idx + 1 if self._last_step is None else step - self._last_step
            self._last_step = step

        tag, text = super().get_log_after_iter(runner, batch_idx, mode)
        if mode != "train":
            return tag, LogLine(text, None) if self.key else text

        if runner.message_hub.get_info("eta") is not None:
            tag["eta"] = runner.message_hub.get_info("eta")
        tag["epochs_done"] = (runner.iter + 1) / len(runner.train_dataloader)
        tag["progress"] = (runner.iter + 1) / runner.max_iters
        self.latest = {**tag, "step": runner.iter + 1}  # as the visualizer writes it

        # The steps after the last line can be fewer than those before it.
        is_last = self.latest["step"] + self._num_steps > runner.max_iters
        if not self._is_shown(is_last=is_last):
            return tag, LogLine(text, None)
        counts = all(term.num_classes for term in _loss_terms(runner).values())
        chance = "ln K" if counts else "chance"
        return tag, LogLine(text, console_line(self.latest, runner.max_epochs, chance))

    def _is_shown(self, *, is_last: bool) -> bool:
        """Whether the console shows this line: each of the first minute, later fewer."""
        now_s = time.monotonic()
        if self._first_s is None:
            self._first_s = now_s
        elapsed_s = now_s - self._first_s
        is_due = now_s - self._shown_s >= rarer_s(elapsed_s, least_s=0.0)
        if is_last or is_due or elapsed_s < _ALL_S:
            self._shown_s = now_s
            return True
        return False

    def get_log_after_epoch(
        self, runner: Runner, batch_idx: int, mode: str, with_non_scalar: bool = False
    ) -> tuple[dict, str]:
        """Return the scores and the text of a validation."""
        tag, text = super().get_log_after_epoch(runner, batch_idx, mode, with_non_scalar)
        if not self.key:
            return tag, text
        if mode != "val" or self.key not in tag:
            return tag, LogLine(text, None)

        head = epoch_head(runner.epoch, runner.max_epochs)
        # CheckpointHook has not seen this score yet.
        best = runner.message_hub.get_info("best_score")
        mark = "  the best so far" if best is None or tag[self.key] > best else ""
        score = f"val {self.name} {self.factor * tag[self.key]:.1f} %"
        return tag, LogLine(text, f"{head}  {score}{mark}")

    def _collect_scalars(
        self, custom_cfg: list[dict], runner: Runner, mode: str, reserve_prefix: bool = False
    ) -> OrderedDict:
        tag = super()._collect_scalars(custom_cfg, runner, mode, reserve_prefix)
        if mode != "train":
            return tag

        for name in {"time", "data_time"} & tag.keys():
            tag[name] = runner.message_hub.get_scalar(f"train/{name}").mean(self._num_steps)
        batch_size = runner.train_dataloader.batch_size  # None with a batch sampler
        if tag.get("time") and batch_size:
            tag["images_per_second"] = batch_size * runner.world_size / tag["time"]
        if get_device() == "cpu":
            tag["memory"] = peak_resident_mib()  # mmengine's name for a GPU's memory

        for name, term in _loss_terms(runner).items():
            # A logged loss is a mean over steps, which must all have had this weight.
            has_one_weight = not term.since or runner.iter + 1 - term.since >= self.window_size
            relative = term.relative(tag[name]) if name in tag else None
            if relative is not None and has_one_weight:
                tag[relative_name(name)] = relative
        return tag


def _loss_terms(runner: Runner) -> dict[str, LossTerm]:
    model = unwrap(runner.model)
    return model.loss_terms() if isinstance(model, PretrainingModel) else {}


@HOOKS.register_module()
class BoundedHistoriesHook(Hook):
    """Keep the last ``KEPT`` values of each scalar: mmengine copies a million at each step."""

    priority = "VERY_LOW"

    def after_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Bound all histories, of a loaded checkpoint and of new scalars, too."""
        for history in runner.message_hub.log_scalars.values():
            history.max_length = KEPT


@HOOKS.register_module()
class PretrainRuntimeInfoHook(RuntimeInfoHook):
    """mmengine's RuntimeInfoHook without waiting for the device at each step.

    Losses and ``PretrainingModel.health`` stay on the device until a LoggerHook writes, an epoch
    ends, or a checkpoint is saved, and after the first step. Until then hooks see older values of
    ``train/loss``. Lines of a LoggerHook also have the scalars of ``PretrainingModel.examine``.
    """

    def __init__(self) -> None:
        self._steps: list[tuple[int, dict[str, Any]]] = []
        self._has_read = False

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: dict | None = None
    ) -> None:
        """Keep the losses of this step, and transfer all if a line is due."""
        is_logged = self._is_logged(runner, batch_idx)
        if outputs is not None:
            kept = dict(outputs)
            model = unwrap(runner.model)
            if isinstance(model, PretrainingModel):
                kept |= model.health()
                if is_logged:
                    kept |= model.examine()
            for name, value in kept.items():
                kept[name] = value.detach() if isinstance(value, Tensor) else value
            self._steps.append((runner.iter + 1, kept))
        if not self._has_read or is_logged:
            self.hand_over(runner)

    def after_train_epoch(self, runner: Runner) -> None:
        """Transfer the remaining losses."""
        self.hand_over(runner)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Complete the history in the checkpoint; a loss that is not finite raises instead."""
        if self._steps:
            self.hand_over(runner)
            checkpoint["message_hub"] = runner.message_hub.state_dict()

    def _is_logged(self, runner: Runner, batch_idx: int) -> bool:
        return any(
            self.every_n_inner_iters(batch_idx, hook.interval)
            or self.end_of_epoch(runner.train_dataloader, batch_idx)
            for hook in runner.hooks
            if isinstance(hook, LoggerHook)
        )

    def hand_over(self, runner: Runner) -> None:
        """Transfer the losses of all steps since the last time.

        Raises:
            RuntimeError: A loss is not finite.
        """
        steps = self._steps
        self._steps = []
        self._has_read = True

        tensors: list[Tensor] = []
        for _, kept in steps:
            tensors += [value.reshape(()) for value in kept.values() if isinstance(value, Tensor)]
        read = iter(torch.stack(tensors).tolist() if tensors else ())

        for step, kept in steps:
            values = {n: next(read) if isinstance(v, Tensor) else v for n, v in kept.items()}
            _require_finite(values, step)
            for name, value in values.items():
                runner.message_hub.update_scalar(f"train/{name}", value)


def _require_finite(values: dict[str, Any], step: int) -> None:
    bad = [n for n, v in values.items() if "loss" in n and not math.isfinite(v)]
    terms = [name for name in bad if name != "loss"]  # 'loss' is their sum
    if bad:
        raise NotFiniteError(
            f"every loss must be finite, but step {step} has "
            f"{', '.join(f'{name}={values[name]}' for name in terms or bad)}; --resume with a "
            "lower optim_wrapper.optimizer.lr, and with bfloat16 if optim_wrapper.dtype is float16."
        )


@HOOKS.register_module()
class MonitorHook(Hook):
    """Warn once of each trouble of ``troubles.py``, in one line with its cure."""

    priority = "LOW"  # after LoggerHook

    def __init__(self) -> None:
        self._records: deque[Record] = deque()
        self._named: set[str] = set()

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None
    ) -> None:
        """Look for troubles if a line has just been written."""
        latest = getattr(runner.log_processor, "latest", None)
        if latest is None or (self._records and latest is self._records[-1]):
            return

        self._records.append(latest)
        while all(latest[key] - self._records[0][key] > most for key, most in _KEPT_FOR.items()):
            self._records.popleft()
        for key, line in find_troubles(self._records).items():
            if key not in self._named:
                self._named.add(key)
                runner.logger.warning(LogLine(line, wrapped(f"warning: {line}")))
