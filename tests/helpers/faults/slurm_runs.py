"""Trainings in jobs of a real Slurm that are stopped in every way that Slurm has."""

import os
import re
import shlex
import subprocess
import sys
import time

from helpers.engine.toy_run import write_config
from helpers.package.checkout import ROOT
from helpers.saving.stopped_runs import assert_equal_runs, logged

EPOCHS = 40  # of two steps of 0.5 s in two processes: long enough for a fault in the middle
_STRIKE_AT = 8  # step after which the fault comes
_QUICKLY = ("--cfg-options", "custom_hooks=[]")
_WAIT_S = 300.0
_TEXT = f"""
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
        self.config = write_config(folder, _TEXT)
        script = ROOT / "tools" / "dist_train.sh"
        self.call("bash", script, self.config, 2, "--work-dir", "whole", *_QUICKLY)

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

    def steps(self, name):
        return [line["step"] for line in logged(self.folder / name)]

    def wait(self, what, is_so):
        """Wait until something is so, for some minutes."""
        end = time.monotonic() + _WAIT_S
        while not is_so():
            if time.monotonic() > end:
                said = "\n".join(path.read_text() for path in self.folder.glob("*.txt"))
                raise AssertionError(f"{what} did not come:\n{said}\n{self.call('squeue')}")
            time.sleep(0.3)

    def wait_for_state(self, job, state):
        self.wait(f"job {job}: {state}", lambda: self.state(job) == state)


def requeue(at, name, job):
    """Put the running job back into the queue."""
    at.call("scontrol", "requeue", job)


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
    "requeued": ("low", 10, requeue),
    "time limit": ("low", 2, lambda at, name, job: None),
    "preempted": ("low", 10, preempt),
    "preempted, with a minute of grace": ("patient", 10, preempt),
    "cancelled, submitted again": ("low", 10, cancel),
}
"""Fault -> partition and minutes of the job, and what brings the fault."""


def assert_survives(at, fault):
    """Submit a training, bring a fault, and compare its end, in which no step was done twice."""
    partition, minutes, strike = FAULTS[fault]
    name = re.sub(r"\W+", "_", fault)
    job = at.submit(name, partition, minutes)
    at.wait(f"step {_STRIKE_AT}", lambda: _STRIKE_AT in at.steps(name))
    strike(at, name, job)
    if strike is not cancel:
        at.wait_for_state(job, "PENDING")
        at.wait_for_state(job, "COMPLETED")
    assert_equal_runs(at.folder / name, at.folder / "whole", f"epoch_{EPOCHS}.pth")
    assert len(list((at.folder / name).glob("*/vis_data"))) >= 2  # a time limit may come twice


def assert_equals_processes_of_torch(at):
    """Train by two tasks of srun as by two processes of ``tools/dist_train.sh``."""
    at.call(
        *("bash", ROOT / "tools" / "slurm_train.sh", "high", "job", at.config),
        *("--work-dir", "tasks", *_QUICKLY),
        CPU_TASKS="2",
        CPUS_PER_TASK="1",
    )
    assert_equal_runs(at.folder / "tasks", at.folder / "whole", f"epoch_{EPOCHS}.pth")
