"""Prepare a config from the options of ``train`` and ``test``, and run it."""

import gc
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.dist import barrier, get_world_size, is_main_process
from mmengine.hooks import Hook
from mmengine.registry import RUNNERS

from ..config.build_errors import FirstStepHook, explain_build_errors
from ..config.run_checks import check_config, check_data
from ..config.schedule_checks import (
    warn_of_batch,
    warn_of_frozen,
    warn_of_late_epochs,
    warn_of_momentum,
    warn_of_queue,
    warn_of_schedule,
)
from ..console.live_line import at_work
from ..console.log_line import LogLine
from ..console.paths import check_path
from ..console.wording import wrapped
from ..datasets.loader_processes import explain_timeout, prepare_loaders
from ..errors import UserRuntimeError, UserValueError
from ..saving.checkpoint_checks import check_fit_of_checkpoint, check_readable
from ..saving.loops import use_resumable_loop
from ..saving.resumed_values import require_same_run
from ..saving.run_files import check_work_dir, existing_checkpoint, newest_intact
from ..saving.run_record import record_end
from ..saving.save_and_stop_hook import DEFAULT_SAVE_EVERY, SaveAndStopHook, meaning_of_steps
from ..system.environment import freed_memory_kept, torch_threads
from ..system.locks import hold_work_dir
from ..system.outputs import write_whole
from ..system.processes import explain_collectives, timeout_of
from ..system.slurm import use_step_environment
from ..system.stopping import StoppedError, is_first_process
from .adapted_backbone import take_backbone
from .config_options import config_with_options
from .initial_weights import apply_weights
from .log_processor import BoundedHistoriesHook
from .runner import BeginHook, ConsoleRunner, end_workers, use_cpu_processes
from .training_progress import TrainingProgress

Launcher = Literal["none", "pytorch", "slurm", "mpi"]


def prepare_train_config(
    config: str | Path | Config,
    *,
    size: str | None = None,
    work_dir: str | Path | None = None,
    weights: str | None = None,
    resume: str | None = None,
    overwrite: bool = False,
    amp: bool = False,
    compile: bool = False,
    cfg_options: Mapping[str, Any] | None = None,
    launcher: Launcher = "none",
) -> Config:
    """Read a config and apply the options of ``mmssprl train``.

    Args:
        config: Config file, see ``config_file``, or a config that has been read.
        size: Small form of the config, see ``at_size``.
        resume: Checkpoint to resume from; "auto" for the newest one in ``work_dir``, and without
            any a new run, from the config's ``load_from`` if it has one.
        overwrite: Allow a ``work_dir`` that holds another run; pass it to ``launch``, too.
        cfg_options: Values by dotted key that replace the config's. The other arguments win.

    Raises:
        FileNotFoundError: A file is missing, or all checkpoints of the run are damaged.
        FileExistsError: ``work_dir`` holds another run.
        RuntimeError: The config needs a package that is not installed.
        ValueError: An option does not fit the config, the device or the launcher.
    """
    cfg = config_with_options(config, size, cfg_options, amp=amp, compile=compile)
    _place(cfg, work_dir, launcher)
    start = cfg.get("load_from") if resume == "auto" else None
    if overwrite and (resume is not None or cfg.get("resume")):
        asked = "resume=True of the config" if resume is None else "--resume"
        raise UserValueError(f"{asked} keeps a run, --overwrite deletes it; give one.")
    if resume is not None:
        cfg.resume = True
        cfg.load_from = None if resume == "auto" else str(existing_checkpoint(resume, "--resume"))

    with explain_build_errors(cfg):
        check_config(cfg, ("train", "val"))
    if cfg.get("resume") and not cfg.get("load_from"):
        newest = newest_intact(cfg.work_dir)
        cfg.load_from = None if newest is None else str(newest)
    if cfg.get("resume") and cfg.load_from:
        check_readable(cfg, "train")
        require_same_run(cfg)
        if weights is not None and is_first_process():
            line = f"--weights {weights} is not read: the run goes on from {cfg.load_from}."
            print(wrapped(line), file=sys.stderr)
        take_backbone(cfg, cfg.load_from)
        return cfg

    resumes = bool(cfg.get("resume"))
    if start:  # the config's weights, in place of the checkpoint that is not there yet
        cfg.load_from = start
        cfg.resume = False
    apply_weights(cfg, weights)
    check_readable(cfg, "train")
    if not resumes:
        check_work_dir(cfg, overwrite=overwrite)
    return cfg


def prepare_test_config(
    config: str | Path,
    checkpoint: str,
    *,
    work_dir: str | Path | None = None,
    cfg_options: Mapping[str, Any] | None = None,
    launcher: Launcher = "none",
) -> Config:
    """Read a config and apply the options of ``mmssprl test``.

    ``checkpoint`` is a file, a URL, or the folder of a run, to test its newest checkpoint.

    Raises:
        FileNotFoundError: The config or checkpoint is missing.
        ValueError: The config has no test set, or as ``prepare_train_config``.
    """
    cfg = config_with_options(config, None, cfg_options)
    _place(cfg, work_dir, launcher)
    if cfg.get("test_dataloader") is None:
        raise UserValueError(
            f"{config} must set test_dataloader; give a config of configs/benchmarks, or score the "
            "features by `probe`."
        )

    if "://" not in checkpoint:
        checkpoint = str(existing_checkpoint(checkpoint, "checkpoint"))
    cfg.resume = False
    cfg.load_from = checkpoint
    with explain_build_errors(cfg):
        check_config(cfg, ("test",))
    check_readable(cfg, "test")
    take_backbone(cfg, cfg.load_from)
    return cfg


def launch(
    cfg: Config,
    task: Literal["train", "test"],
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    hooks: Sequence[Hook] = (),
    keep_record: bool = True,
    resume_by: Sequence[str] | None = None,
) -> None:
    """Train or test a prepared config, and leave the process group.

    Args:
        cfg: Prepared config; its ``num_threads`` sets torch's threads, None ``default_threads``.
        out: JSON file for the metrics of a test; an existing file is replaced.
        overwrite: Delete the checkpoints of another run in ``work_dir``, after all checks.
        keep_record: Whether a training writes ``run.json``, see ``record_run``.
        resume_by: Command that resumes the training, see ``SaveAndStopHook``.

    Raises:
        OSError, TypeError, ValueError: As ``explain_build_errors``; a full disk.
        RuntimeError: Another process writes into ``work_dir``, a wait has taken too long, or the
            caller has a process group.
        StoppedError: A signal stopped the training.
    """
    _refuse_other_group(cfg)
    if task == "train":
        use_resumable_loop(cfg)
        hooks = (*hooks, SaveAndStopHook(cfg.get("save_every", DEFAULT_SAVE_EVERY), resume_by))
    if cfg.launcher != "none" and get_device() == "cpu":
        # Before mmengine, which would select a CUDA device first.
        torch.distributed.init_process_group("gloo", timeout=timeout_of(cfg))

    progress = TrainingProgress()
    shown: AbstractContextManager[None] = nullcontext()
    if task == "train" and keep_record and is_first_process():
        shown = at_work(progress.text, logs=True)
        hooks = (*hooks, progress)
    stopped: StoppedError | None = None
    is_first = cfg.launcher == "none" or is_first_process()
    lock = hold_work_dir(cfg.work_dir, writes=task == "train" and is_first)
    with torch_threads(cfg.get("num_threads")), lock, freed_memory_kept(get_device()):
        first_step = FirstStepHook()
        hooks = (first_step, BoundedHistoriesHook(), *hooks)
        with explain_build_errors(cfg, first_step), explain_collectives(cfg):
            runner = _build(cfg, task, hooks, overwrite=overwrite, keep_record=keep_record)
            try:
                with shown, explain_timeout(partial(_loader_in_use, runner, task)):
                    metrics = runner.train() if task == "train" else runner.test()
                if task == "train" and keep_record and is_main_process():
                    record_end(cfg.work_dir)
                if out is not None and is_main_process():
                    # Metrics of mmseg are numpy scalars.
                    write_whole(Path(out), json.dumps(metrics, indent=2, default=float) + "\n")
            except StoppedError as error:
                stopped = error.with_traceback(None)  # its frames would hold the runner
            finally:
                progress.end()
                end_workers(runner)

        with explain_collectives(cfg):
            barrier()  # a rank that leaves while another still saves can abort in gloo's threads
        # The model's wrapper holds the group: its threads would abort the process at its end.
        del runner
        gc.collect()
        if cfg.launcher != "none" and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
    if stopped is not None:
        raise stopped


def _refuse_other_group(cfg: Config) -> None:
    num_ranks = get_world_size()
    if cfg.launcher == "none" and num_ranks > 1:
        raise UserRuntimeError(
            f"this process must not be in a process group, but is in one of {num_ranks} processes: "
            "each would see a share of the images and average nothing. Call it in a process of "
            "its own, without torchrun; `pretrain` and `finetune` start one per GPU."
        )


def _build(
    cfg: Config,
    task: Literal["train", "test"],
    hooks: Sequence[Hook],
    *,
    overwrite: bool,
    keep_record: bool,
) -> Any:
    """Build a runner with its hooks, data and loaders, and check that they fit each other."""
    starts_new = bool(cfg.get("resume")) and not cfg.get("load_from")
    if starts_new:
        cfg.resume = False

    runner = RUNNERS.build(cfg) if "runner_type" in cfg else ConsoleRunner.from_cfg(cfg)
    for hook in hooks:
        runner.register_hook(hook)
    check_data(runner, task)
    check_fit_of_checkpoint(runner, task)

    loops = {"test": runner.test_loop} if task == "test" else {"train": runner.train_loop}
    if task == "train":
        loops["val"] = runner.val_loop
    loaders = {f"{name}_dataloader": loop.dataloader for name, loop in loops.items() if loop}
    prepare_loaders(loaders, lambda line: runner.logger.warning(LogLine(line, line)))

    if task == "train":
        steps = meaning_of_steps(runner)
        warn_of_schedule(cfg, steps["epoch_steps"])
        parts = cfg.optim_wrapper.get("accumulative_counts", 1)
        warn_of_batch(cfg, steps["step_samples"] * parts, parts)
        warn_of_momentum(cfg, runner.max_iters)
        warn_of_queue(cfg, runner.world_size)
        warn_of_late_epochs(cfg)
        warn_of_frozen(cfg)
        runner.register_hook(BeginHook(overwrite=overwrite, keeps_record=keep_record))
        if starts_new:
            runner.logger.info(f"{cfg.work_dir} has no checkpoint yet: starting a new run.")
    return runner


def _loader_in_use(runner: Any, task: Literal["train", "test"]) -> str:
    if task == "test":
        return "test_dataloader"
    return "train_dataloader" if runner.model.training else "val_dataloader"


def _place(cfg: Config, work_dir: str | Path | None, launcher: Launcher) -> None:
    if work_dir is not None:
        cfg.work_dir = str(work_dir)
    elif cfg.get("work_dir") is None:
        cfg.work_dir = os.path.join("work_dirs", Path(cfg.filename).stem)
    check_path(cfg.work_dir, "work_dir", folder="a folder", writes=True)

    if launcher == "pytorch" and "RANK" not in os.environ:
        raise UserValueError(
            "--launcher pytorch needs torchrun, but RANK is not set; start the command with "
            "`torchrun --nproc_per_node N`, or leave --launcher out."
        )
    if launcher == "slurm":
        use_step_environment()
    cfg.launcher = launcher
    if launcher != "none" and get_device() == "cpu":
        use_cpu_processes(cfg)
