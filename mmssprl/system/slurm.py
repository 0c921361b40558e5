"""Slurm: find the other tasks of a step, and requeue a job after a stop."""

import os
import signal
import subprocess
from collections.abc import MutableMapping

from ..errors import UserValueError

REQUEUE = "MMSSPRL_REQUEUE"
"""Environment variable that ``tools/slurm_train.sh`` sets if a job may be requeued."""
_SRUN = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS")
_FIRST_PORT = 20000
_NUM_PORTS = 10000


def use_step_environment(environ: MutableMapping[str, str] = os.environ) -> None:
    """Set the variables of torch.distributed from the variables of srun.

    The port is derived from the ids of job and step, so that jobs on a node do not share it.
    """
    missing = [name for name in _SRUN if name not in environ]
    if missing:
        raise UserValueError(
            f"launcher 'slurm' needs the variables of srun, but {missing[0]} is not set; "
            "start the command with tools/slurm_train.sh or srun, or leave --launcher out."
        )

    job, step, rank, local_rank, tasks = (environ[name] for name in _SRUN)
    environ.update(RANK=rank, LOCAL_RANK=local_rank, WORLD_SIZE=tasks)
    num_nodes = int(environ.get("SLURM_STEP_NUM_NODES") or environ.get("SLURM_NNODES") or 1)
    environ.setdefault("LOCAL_WORLD_SIZE", str(-(-int(tasks) // num_nodes)))
    environ.setdefault("MASTER_PORT", str(_FIRST_PORT + (10 * int(job) + int(step)) % _NUM_PORTS))
    if "MASTER_ADDR" not in environ:
        nodes = environ.get("SLURM_STEP_NODELIST") or environ["SLURM_NODELIST"]
        environ["MASTER_ADDR"] = _scontrol("show", "hostnames", nodes).split()[0]


def comes_back() -> bool:
    """Whether this job is requeued after a stop."""
    return REQUEUE in os.environ and "SLURM_JOB_ID" in os.environ


def requeue(is_first: bool) -> str | None:
    """Requeue this job unless Slurm does so or it was cancelled; return a line for the log.

    Slurm requeues a job that it preempts at once, but not one that stays RUNNING until it exits.
    Call it in all tasks: Slurm sends SIGTERM to a requeued job, which is ignored from here on. Only
    the first task asks Slurm; the others return None.
    """
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    if not is_first:
        return None

    job = os.environ["SLURM_JOB_ID"]
    try:
        words = _scontrol("--oneliner", "show", "job", job).split()
        (state,) = (word.partition("=")[2] for word in words if word.startswith("JobState="))
        if state != "RUNNING":
            return f"job {job} is {state}, and left to Slurm"
        _scontrol("requeue", job)
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip()
        return f"job {job} could not be requeued ({reason}); run: scontrol requeue {job}"
    return f"job {job} is requeued"


def _scontrol(*words: str) -> str:
    done = subprocess.run(["scontrol", *words], capture_output=True, text=True, check=True)
    return done.stdout
