"""Train a config, in this process or in one per GPU; imports nothing that plans or reports."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.hooks import Hook

from ..config.shipped import shipped
from ..console.quiet import is_verbose
from ..engine.launch import launch, prepare_train_config
from ..system.processes import run_processes


def train_config(
    config: Path, work_dir: Path, *, num_gpus: int, resume: str | None, resume_by: Sequence[str]
) -> None:
    """Train a config file in one process per GPU, or in this process on one GPU or a CPU.

    ``resume`` is a checkpoint, "auto" for the newest one, or None for a new run. ``resume_by`` is
    the command that resumes the run with ``--resume``.
    """
    resume_by = [*resume_by, "--resume"]
    if num_gpus <= 1:
        amp = num_gpus > 0
        train_in_process(config, work_dir, amp=amp, resume=resume, resume_by=resume_by)
        return

    command = ["--standalone", f"--nproc_per_node={num_gpus}"]
    command += [str(shipped("tools/train.py")), str(config)]
    command += ["--work-dir", str(work_dir), "--launcher", "pytorch", "--amp"]
    if resume is not None:
        command += ["--resume", resume]
    if is_verbose():
        command.append("--verbose")
    run_processes(command, resume_by)


def train_in_process(
    config: Path | Config,
    work_dir: Path,
    *,
    amp: bool,
    resume: str | None,
    overwrite: bool = False,
    cfg_options: Mapping[str, Any] | None = None,
    hooks: Sequence[Hook] = (),
    resume_by: Sequence[str] | None = None,
) -> Config:
    """Train a config in this process, and return it as it was trained.

    Arguments are as in ``prepare_train_config`` and ``launch``.
    """
    cfg = prepare_train_config(
        config,
        work_dir=work_dir,
        resume=resume,
        overwrite=overwrite,
        amp=amp,
        cfg_options=cfg_options,
    )
    launch(cfg, "train", overwrite=overwrite, hooks=hooks, resume_by=resume_by)
    return cfg
