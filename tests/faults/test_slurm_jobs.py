"""Trainings in jobs of a real Slurm of one node, stopped in every way that Slurm has."""

import getpass
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.engine.toy_run import write_config
from helpers.package.checkout import ROOT
from helpers.saving.stopped_runs import assert_equal_runs, logged

pytestmark = [pytest.mark.fault, pytest.mark.fence, pytest.mark.slow]

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
SLURM_CONFIG = """
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
"""Jobs of ``high`` preempt the others; jobs of ``patient`` have a minute to end."""


@contextmanager
def slurm(folder):
    """Start a Slurm in an empty folder of a short path; yield the environment of its commands."""
    for name in ("state", "spool"):
        (folder / name).mkdir()

    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    folder.chmod(0o755)

    host = socket.gethostname().partition(".")[0]
    controller, node = free_ports()
    config = folder / "slurm.conf"
    words = {"host": host, "user": getpass.getuser(), "folder": folder}
    config.write_text(SLURM_CONFIG.format(**words, controller=controller, node=node))
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SBATCH_"))}
    environment = {**kept, "PATH": PATH, "SLURM_CONF": str(config)}

    places = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "log", "seed", "pid")]
    socket_file = f"--socket={folder}/munge.socket"
    munge = ("munged", "--foreground", "--force", socket_file, *places)

    daemons = []
    try:
        for command in (munge, ("slurmctld", "-D", "-i"), ("slurmd", "-D")):
            with (folder / f"{command[0]}.out").open("w") as out:
                daemons.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))
            wait_for((folder / "munge.socket").exists, "munged")
        ask = ["sinfo", "--noheader", "--format=%T"]
        options = {"env": environment, "capture_output": True}
        wait_for(lambda: b"idle" in subprocess.run(ask, **options).stdout, "the node")
        yield environment
    finally:
        for process in reversed(daemons):
            process.terminate()
        for process in reversed(daemons):
            process.wait(30)


def free_ports():
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def wait_for(is_so, what, seconds=60.0):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"{what} is not there after {seconds:.0f} s"
        time.sleep(0.3)


EPOCHS = 40  # of two steps of 0.5 s in two processes: long enough for a fault in the middle
STRIKE_AT = 8  # step after which the fault comes
QUICKLY = ("--cfg-options", "custom_hooks=[]")
TEXT = f"""
train_cfg = dict(by_epoch=True, max_epochs={EPOCHS})
param_scheduler = [dict(type="CosineAnnealingLR", T_max={EPOCHS})]
default_hooks = dict(
    checkpoint=dict(type="CheckpointHook", interval=1, max_keep_ckpts=3),
    logger=dict(type="LoggerHook", interval=1),
)
custom_hooks = [dict(type="ToyPause", seconds=0.5)]
"""


class Cluster:
    """A Slurm, a folder with the config, and the run that the others are compared with."""

    def __init__(self, folder, environment):
        self.folder = folder
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        self.environment = {**environment, "PYTHON": sys.executable, "PYTHONPATH": paths}
        self.environment |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1"}
        self.config = write_config(folder, TEXT)
        script = ROOT / "tools" / "dist_train.sh"
        self.call("bash", script, self.config, 2, "--work-dir", "whole", *QUICKLY)

    def call(self, *words, **more):
        """Return what a command says."""
        done = subprocess.run(
            [str(word) for word in words],
            cwd=self.folder,
            env={**self.environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, f"{shlex.join(map(str, words))}: {done.stdout}"
        return done.stdout

    def submit(self, name, partition, minutes):
        """Submit a training that resumes until it is complete, and return the job's number."""
        options = ("--cfg-options", "custom_hooks.0.seconds=1.2") if minutes < 3 else ()
        said = self.call(
            *("bash", ROOT / "tools" / "slurm_train.sh", partition, name, self.config),
            *("--work-dir", name, *options),
            BATCH="1",
            CPU_TASKS="2",
            CPUS_PER_TASK="1",
            SAVE_BEFORE="30",
            SRUN_ARGS=f"--time={minutes} --output={name}.txt",
        )
        return said.split()[-1]

    def state(self, job):
        said = self.call("scontrol", "--oneliner", "show", "job", job)
        return re.findall(r"JobState=(\S+)", said)[0]

    def wait(self, what, is_so):
        try:
            wait_for(is_so, what, 300.0)
        except AssertionError:
            print(*(path.read_text() for path in self.folder.glob("*.txt")), self.call("squeue"))
            raise

    def wait_for_state(self, job, state):
        self.wait(f"job {job}: {state}", lambda: self.state(job) == state)


def preempt(at, name, job):
    """Submit a job that preempts the other."""
    at.call("sbatch", "--partition=high", "--ntasks=2", "--output=/dev/null", "--wrap=sleep 2")


def cancel(at, name, job):
    """Cancel the job, see that it stays so, and submit what its last line says."""
    at.call("scancel", job)
    at.wait_for_state(job, "CANCELLED")
    line = r"resume with: (.*)"
    at.wait("its end", lambda: re.search(line, (at.folder / f"{name}.txt").read_text()))
    time.sleep(8)  # longer than Slurm would take to start what is requeued
    assert at.state(job) == "CANCELLED"
    (command,) = re.findall(line, (at.folder / f"{name}.txt").read_text())
    said = at.call(*shlex.split(command))
    at.wait_for_state(said.split()[-1], "COMPLETED")


FAULTS = {
    "requeued": ("low", 10, lambda at, name, job: at.call("scontrol", "requeue", job)),
    "time limit": ("low", 2, lambda at, name, job: None),
    "preempted": ("low", 10, preempt),
    "preempted, with a minute of grace": ("patient", 10, preempt),
    "cancelled, submitted again": ("low", 10, cancel),
}
"""Fault -> partition and minutes of the job, and what brings the fault."""


@pytest.fixture(scope="module")
def at(tmp_path_factory):
    """A Slurm of one node, with a training that was complete without a fault."""
    commands = ("munged", "slurmctld", "slurmd", "sbatch")
    missing = [name for name in commands if shutil.which(name, path=PATH) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: apt-get install slurm-wlm munge")
    with (
        tempfile.TemporaryDirectory() as folder,  # the path of a socket must be short
        slurm(Path(folder)) as environment,
    ):
        yield Cluster(tmp_path_factory.mktemp("slurm"), environment)


def test_two_tasks_train_as_two_processes_of_torch(at):
    at.call(
        *("bash", ROOT / "tools" / "slurm_train.sh", "high", "job", at.config),
        *("--work-dir", "tasks", *QUICKLY),
        CPU_TASKS="2",
        CPUS_PER_TASK="1",
    )
    assert_equal_runs(at.folder / "tasks", at.folder / "whole", f"epoch_{EPOCHS}.pth")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_job_survives(at, fault):
    """It ends as a run without a fault, and no step was done twice."""
    partition, minutes, strike = FAULTS[fault]
    name = re.sub(r"\W+", "_", fault)
    job = at.submit(name, partition, minutes)
    run = at.folder / name
    at.wait(f"step {STRIKE_AT}", lambda: any(line["step"] == STRIKE_AT for line in logged(run)))
    strike(at, name, job)
    if strike is not cancel:
        at.wait_for_state(job, "PENDING")
        at.wait_for_state(job, "COMPLETED")
    assert_equal_runs(run, at.folder / "whole", f"epoch_{EPOCHS}.pth")
    assert len(list(run.glob("*/vis_data"))) >= 2  # a time limit may come twice
