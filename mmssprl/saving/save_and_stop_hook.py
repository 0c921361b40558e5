"""Save checkpoints by time or steps, and save and stop on a signal."""

import copy
import shlex
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from mmengine.dist import get_world_size, is_main_process
from mmengine.hooks import CheckpointHook, Hook
from mmengine.runner import Runner
from torch import Tensor, distributed

from ..console.durations import parse_duration
from ..console.log_line import LogLine
from ..errors import UserValueError
from ..registry import HOOKS
from ..system.processes import timeout_of
from ..system.slurm import comes_back, requeue
from ..system.stopping import SAVED, Signal, StoppedError, signals
from .checkpoint_hooks import STEP_FILE
from .loops import ResumableEpochLoop, ResumableIterLoop
from .resumed_values import SCHEDULE, schedule_of, use_values_of_config
from .run_files import POINTER

DEFAULT_SAVE_EVERY = "30m"


@HOOKS.register_module()
class SaveAndStopHook(Hook):
    """Save a checkpoint every few steps or minutes, and save and stop after a signal.

    It saves through the run's CheckpointHook, as ``step_<step>.pth``, keeps only the newest of
    these, and none in the end. The ranks agree once per step by an asynchronous all-reduce on the
    CPU. The next step reads its result, so that nothing waits. With accumulated gradients the hook
    acts only after an optimizer step, because checkpoints hold no partial sums.

    Args:
        save_every: Steps between two saves, or time, such as 500 or "15m".
        resume_by: Command that resumes the run; without it signals are not handled.

    Raises:
        ValueError: ``save_every`` is neither a number of steps nor a time.
    """

    priority = "LOWEST"  # after the other hooks

    def __init__(
        self, save_every: int | str = DEFAULT_SAVE_EVERY, resume_by: Sequence[str] | None = None
    ) -> None:
        self.steps, self.seconds = parse_save_every(save_every)
        self.resume_by = resume_by
        self._group: distributed.ProcessGroup | None = None
        self._asked: tuple[Tensor, Any] | None = None
        self._saver: CheckpointHook | None = None
        self._saved_step = self._newest_step = 0
        self._has_checkpoint = False
        self._saved_at = 0.0

    def before_train(self, runner: Runner) -> None:
        """Find the CheckpointHook, and connect the processes."""
        if isinstance(runner.train_loop, ResumableEpochLoop | ResumableIterLoop):
            self._saver = next((h for h in runner.hooks if isinstance(h, CheckpointHook)), None)
        if get_world_size() > 1:
            self._group = distributed.new_group(backend="gloo", timeout=timeout_of(runner.cfg))
        self._saved_at = time.monotonic()
        self._saved_step = runner.iter
        self._has_checkpoint = (Path(runner.work_dir) / POINTER).exists()

    def before_train_epoch(self, runner: Runner) -> None:
        """Handle signals from here on, in this process and not in the loaders' workers."""
        if self.resume_by is not None:
            signals.note(advice=partial(self._advice, runner))

    def after_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Save if it is due; raise StoppedError if any rank got a signal."""
        signals.progress()
        step = runner.iter + 1
        if step == runner.max_iters or not runner.optim_wrapper.should_update():
            return  # the end of the training saves anyway

        is_late = self.seconds is not None and time.monotonic() - self._saved_at > self.seconds
        stop, is_due = self._agree(signals.number, is_late and is_main_process())
        if stop:
            signals.saves()
        is_due = is_due or (self.steps is not None and step - self._saved_step >= self.steps)

        if self._saver is not None and (stop or is_due):
            self._save(runner, self._saver)
            self._saved_step = step  # on all ranks; only rank 0 runs before_save_checkpoint
        if stop:
            self._stop(runner, stop, step)

    def after_val_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Stop a validation if its weights are saved: the resumed run validates again.

        Only in one process: several may have different numbers of batches.
        """
        signals.progress()
        if signals.number and self._group is None and self._newest_step == runner.iter:
            self._stop(runner, signals.number, runner.iter)

    def after_train(self, runner: Runner) -> None:
        """Stop handling signals, and delete the checkpoint that the last one replaces."""
        signals.interrupt()
        self._disconnect()
        newest = runner.message_hub.get_info("last_ckpt")
        if self._saver is not None and newest and is_main_process():
            _delete_steps(self._saver, keep=Path(newest).name)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Record schedule, samples per step and steps per epoch; restart the clock of saves."""
        checkpoint["meta"].update(meaning_of_steps(runner))
        checkpoint["meta"][SCHEDULE] = schedule_of(runner.cfg)
        if "optimizer" in checkpoint:
            self._saved_at = time.monotonic()
            self._newest_step = checkpoint["meta"]["iter"]
            self._has_checkpoint = True

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Use the rate and schedule of the config in a resumed run.

        Raises:
            ValueError: Samples per step or steps per epoch have changed.
        """
        if not runner.cfg.get("resume"):
            return
        now = meaning_of_steps(runner)
        before = {key: checkpoint["meta"].get(key, value) for key, value in now.items()}
        if before != now:
            raise UserValueError(
                f"cannot resume: this run has {now['step_samples']} samples per step and "
                f"{now['epoch_steps']} steps per epoch, its checkpoint was written with "
                f"{before['step_samples']} and {before['epoch_steps']}. Give the same data, and "
                f"keep batch_size x processes = {before['step_samples']}."
            )
        use_values_of_config(runner, checkpoint)

    def _agree(self, number: int, is_due: bool) -> tuple[int, bool]:
        """Return the maximum of each over all ranks; with several ranks, of the last step."""
        if self._group is None:
            return number, is_due

        agreed = (0, 0)
        if self._asked is not None:
            answer, work = self._asked
            work.wait()
            agreed = tuple(answer.tolist())
        self._asked = None

        if not agreed[0]:
            # A save that is agreed now has not happened yet: do not ask for it again.
            mine = torch.tensor([number, int(is_due and not agreed[1])])
            most = distributed.ReduceOp.MAX
            self._asked = (mine, distributed.all_reduce(mine, most, self._group, async_op=True))
        return agreed[0], bool(agreed[1])

    def _save(self, runner: Runner, saver: CheckpointHook) -> None:
        every = (saver.interval, saver.save_begin)
        if not saver.by_epoch and saver.every_n_train_iters(runner, *every):
            return  # it has just saved
        # A copy, so that step_*.pth do not count among the checkpoints that the hook keeps.
        of_step = copy.copy(saver)
        of_step.by_epoch = False
        of_step.filename_tmpl = STEP_FILE
        of_step.max_keep_ckpts = -1
        of_step._save_checkpoint(runner)
        if is_main_process():
            _delete_steps(saver, keep=STEP_FILE.format(runner.iter + 1))

    def _stop(self, runner: Runner, number: int, step: int) -> None:
        if self._group is not None:
            distributed.barrier(self._group)  # nobody leaves while rank 0 writes
        self._disconnect()

        saved = "without saving, because the run has no CheckpointHook"
        if self._saver is not None:
            command = shlex.join(self.resume_by or ())
            saved = f"saved in {runner.work_dir}; resume with: {command}"
        line = f"stopped by {Signal(number).name} after step {step} of {runner.max_iters}, {saved}"
        if is_main_process():
            runner.logger.warning(LogLine(line, line))

        signals.interrupt()
        if self._saver is not None and comes_back():
            answer = requeue(is_main_process())
            if answer is not None:
                runner.logger.warning(LogLine(answer, answer))
        raise StoppedError(SAVED if self._saver is not None else 128 + number)

    def _advice(self, runner: Runner) -> str:
        command = shlex.join(self.resume_by or ())
        if not self._has_checkpoint:  # noted: the disk may be what hangs
            return f"{runner.work_dir} has no checkpoint yet; start again with: {command}"
        return f"Resume after the last checkpoint in {runner.work_dir} with: {command}"

    def _disconnect(self) -> None:
        if self._asked is not None:
            self._asked[1].wait()
        self._asked = self._group = None


def parse_save_every(text: int | str) -> tuple[int | None, float | None]:
    """Return the steps or the seconds between two saves; the other is None."""
    words = str(text)
    if words.isdecimal() and int(words) >= 1:
        return int(words), None
    return None, parse_duration(words, "save_every, if no number of steps from 1 on,")


def meaning_of_steps(runner: Runner) -> dict[str, int]:
    """Return the samples of a step of all processes, and the steps of an epoch."""
    loader = runner.train_dataloader
    batch_size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", 0)
    return {"step_samples": batch_size * runner.world_size, "epoch_steps": len(loader)}


def _delete_steps(saver: CheckpointHook, keep: str) -> None:
    for path in Path(saver.out_dir).glob(STEP_FILE.format("*")):
        if path.name != keep:
            path.unlink()
