"""A task of a Slurm step: how it finds the others, and how its job comes back after a stop."""

import os
import signal
import subprocess
from collections.abc import MutableMapping

from ..errors import UserValueError

REQUEUE = "MMSSPRL_REQUEUE"
"""Names the variable that ``tools/slurm_train.sh`` sets in a job that may resume by itself."""
_SRUN = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS")
_FIRST_PORT, _PORTS = 20000, 10000


def use_step_environment(environ: MutableMapping[str, str] = os.environ) -> None:
    """Set what torch reads to find the other tasks of this step, from what srun has set.

    The port follows from the numbers of job and step, so that jobs on a node do not share it.
    """
    missing = [name for name in _SRUN if name not in environ]
    if missing:
        raise UserValueError(
            f"launcher 'slurm' needs what srun sets, but the variable {missing[0]} is not set; "
            "start the command with tools/slurm_train.sh or srun, or leave --launcher out."
        )
    job, step, rank, local_rank, tasks = (environ[name] for name in _SRUN)
    environ.update(RANK=rank, LOCAL_RANK=local_rank, WORLD_SIZE=tasks)
    environ.setdefault("MASTER_PORT", str(_FIRST_PORT + (10 * int(job) + int(step)) % _PORTS))
    if "MASTER_ADDR" not in environ:
        nodes = environ.get("SLURM_STEP_NODELIST") or environ["SLURM_NODELIST"]
        environ["MASTER_ADDR"] = _scontrol("show", "hostnames", nodes).split()[0]


def comes_back() -> bool:
    """Whether this process's job is one that is put back into its queue after a stop."""
    return REQUEUE in os.environ and "SLURM_JOB_ID" in os.environ


def requeue(is_first: bool) -> str | None:
    """Put this process's job back into its queue, unless Slurm does so or it was cancelled.

    A job that runs into its time limit or is preempted with time to save is RUNNING until it ends
    by itself, and would then be over. Slurm requeues one that is preempted without. One that was
    cancelled is not to come back.

    Slurm ends what it requeues by SIGTERM, which is ignored from here on: call it in all tasks. The
    first one asks Slurm, and returns what was done, for the log.
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
        said = (getattr(error, "stderr", None) or str(error)).strip()
        return f"job {job} could not be requeued ({said}); do it by: scontrol requeue {job}"
    return f"job {job} is requeued"


def _scontrol(*words: str) -> str:
    done = subprocess.run(["scontrol", *words], capture_output=True, text=True, check=True)
    return done.stdout
