"""A Slurm of one node for tests: munged, slurmctld and slurmd, started for a while."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_DAEMONS = ("munged", "slurmctld", "slurmd")
_CONTROLLER = ("slurmctld", "-D", "-i")
_NODE = ("slurmd", "-D")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_READY_S = 60.0
CONFIG = """
ClusterName=faults
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=bf_interval=1,sched_interval=2,sched_min_interval=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=30
NodeName={host} NodeAddr=127.0.0.1 CPUs=2
PartitionName=low Nodes={host} Default=YES PriorityTier=1
PartitionName=patient Nodes={host} PriorityTier=1 GraceTime=60
PartitionName=high Nodes={host} PriorityTier=10
"""
"""Jobs of ``high`` preempt the others; those of ``patient`` have a minute to end by themselves."""


def missing() -> str | None:
    """Return why there can be no Slurm here, or None."""
    absent = [name for name in (*_DAEMONS, "sbatch") if shutil.which(name, path=_PATH) is None]
    if absent:
        return f"needs {', '.join(absent)}: apt-get install slurm-wlm munge"
    return None


@contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Start a Slurm in an empty folder of a short path; yield the environment of its commands."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    folder.chmod(0o755)
    host = socket.gethostname().partition(".")[0]
    controller, node = _free_ports()
    config = folder / "slurm.conf"
    words = {"host": host, "user": getpass.getuser(), "folder": folder}
    config.write_text(CONFIG.format(**words, controller=controller, node=node))
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SBATCH_"))}
    environment = {**kept, "PATH": _PATH, "SLURM_CONF": str(config)}
    places = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "log", "seed", "pid")]
    socket_file = f"--socket={folder}/munge.socket"
    munge = ("munged", "--foreground", "--force", socket_file, *places)
    daemons = []
    try:
        for command in (munge, _CONTROLLER, _NODE):
            with (folder / f"{command[0]}.out").open("w") as out:
                daemons.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))
            _wait_for((folder / "munge.socket").exists, "munged")
        _wait_for(lambda: _is_idle(environment), "the node")
        yield environment
    finally:
        for process in reversed(daemons):
            process.terminate()
        for process in reversed(daemons):
            process.wait(30)


def _wait_for(is_ready: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _READY_S
    while not is_ready():
        if time.monotonic() > end:
            raise RuntimeError(f"{what} of the Slurm for tests is not ready after {_READY_S:.0f} s")
        time.sleep(0.2)


def _is_idle(environment: dict[str, str]) -> bool:
    ask = ["sinfo", "--noheader", "--format=%T"]
    return b"idle" in subprocess.run(ask, env=environment, capture_output=True).stdout


def _free_ports() -> list[int]:
    sockets = [socket.socket() for _ in range(2)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
