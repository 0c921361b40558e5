"""Trainings in jobs of a real Slurm that are stopped in every way that Slurm has.

Two tasks with gloo train on a node without GPUs; each end must equal the one of
``tools/dist_train.sh CONFIG 2``, bit by bit. Needs Debian's slurm-wlm and munge, and no Slurm of
the machine's own: a node is started in a temporary folder.
"""

import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mmssprl.console.arguments import Parser
from mmssprl.console.tables import markdown_table
from mmssprl.system.outputs import write_whole

from . import slurm_cluster, training
from .base import describe_run
from .training import equal, load_state

ROOT = Path(__file__).resolve().parents[3]
EPOCHS = 40  # of two steps of 0.5 s: long enough for a fault in the middle
_STRIKE_AT = 8  # step after which the fault comes
_QUICKLY = ("--cfg-options", "custom_hooks=[]")
_WAIT_S = 300.0
_HEADS = ("fault", "state of the job after it", "starts", "lost steps", "end bit-equal", "seconds")


class Survived(NamedTuple):
    """One row of the table."""

    fault: str  # what happened to the job
    state: str  # of the job when Slurm had answered the fault
    starts: int  # how often the training was started until it was complete
    lost_steps: int  # steps that were done more than once
    is_equal: bool  # whether its end is that of a run without the fault
    seconds: float  # from the submission to the end, with Slurm's own delays


class Cluster:
    """A Slurm, a folder with the config, and the run that the others are compared with."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = {**environment, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
        self.environment |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1"}
        self.config = training.write_config(folder, EPOCHS)
        with self.config.open("a") as file:
            file.write(training.SLOWLY)
        script = ROOT / "tools" / "dist_train.sh"
        self.call("bash", script, self.config, 2, "--work-dir", "whole", *_QUICKLY)
        self.expected = self.end_of("whole")

    def call(self, *words: Any, **more: str) -> str:
        """Return what a command says."""
        done = subprocess.run(
            [str(word) for word in words],
            cwd=self.folder,
            env={**self.environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{shlex.join(map(str, words))} ended with:\n{done.stdout}")
        return done.stdout

    def end_of(self, name: str) -> dict[str, Any]:
        """Return what a complete training has in its last checkpoint."""
        return load_state(self.folder / name / f"epoch_{EPOCHS}.pth")

    def submit(self, name: str, partition: str, minutes: int) -> str:
        """Submit a training that goes on by itself, and return the number of its job."""
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

    def state(self, job: str) -> str:
        """Return the state of a job."""
        said = self.call("scontrol", "--oneliner", "show", "job", job)
        return re.findall(r"JobState=(\S+)", said)[0]

    def steps(self, name: str) -> list[int]:
        """Return all steps that all starts of a run have logged."""
        paths = (self.folder / name).glob("*/vis_data/scalars.json")
        return [json.loads(line)["step"] for path in paths for line in path.open()]

    def wait(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait until something is so, for some minutes."""
        end = time.monotonic() + _WAIT_S
        while not is_so():
            if time.monotonic() > end:
                said = "\n".join(path.read_text() for path in self.folder.glob("*.txt"))
                raise RuntimeError(f"{what} did not come:\n{said}\n{self.call('squeue')}")
            time.sleep(0.3)

    def wait_for_step(self, name: str, step: int) -> None:
        """Wait until a run has logged a step."""
        self.wait(f"step {step} of {name}", lambda: step in self.steps(name))

    def wait_for_state(self, job: str, state: str) -> None:
        """Wait until a job is in a state."""
        self.wait(f"job {job}: {state}", lambda: self.state(job) == state)


Strike = Callable[[Cluster, str, str], None]


def requeue(at: Cluster, name: str, job: str) -> None:
    """Put the running job back into the queue."""
    at.call("scontrol", "requeue", job)


def preempt(at: Cluster, name: str, job: str) -> None:
    """Submit a job that preempts the other."""
    at.call("sbatch", "--partition=high", "--ntasks=2", "--output=/dev/null", "--wrap=sleep 2")


def cancel(at: Cluster, name: str, job: str) -> None:
    """Cancel the job, see that it stays so, and submit what its last line says."""
    at.call("scancel", job)
    at.wait_for_state(job, "CANCELLED")
    at.wait("its end", lambda: "go on with: " in (at.folder / f"{name}.txt").read_text())
    time.sleep(8)  # longer than Slurm would take to start what is requeued
    if at.state(job) != "CANCELLED":
        raise RuntimeError(f"a job that was cancelled is {at.state(job)}")
    (line,) = re.findall("go on with: (.*)", (at.folder / f"{name}.txt").read_text())
    said = at.call(*shlex.split(line))
    at.wait_for_state(said.split()[-1], "COMPLETED")


FAULTS: dict[str, tuple[str, int, Strike]] = {
    "requeued": ("low", 10, requeue),
    "time limit": ("low", 2, lambda at, name, job: None),
    "preempted": ("low", 10, preempt),
    "preempted, with a minute of grace": ("patient", 10, preempt),
    "cancelled, submitted again": ("low", 10, cancel),
}
"""Fault -> partition and minutes of the job, and what brings the fault."""


def survive(at: Cluster, fault: str) -> Survived:
    """Submit a training, bring a fault, and see how it ends."""
    partition, minutes, strike = FAULTS[fault]
    name = re.sub(r"\W+", "_", fault)
    start = time.monotonic()
    job = at.submit(name, partition, minutes)
    at.wait_for_step(name, _STRIKE_AT)
    strike(at, name, job)
    state = at.state(job) if strike is cancel else "PENDING"
    if strike is not cancel:
        at.wait_for_state(job, state)
        at.wait_for_state(job, "COMPLETED")
    seconds = time.monotonic() - start
    steps = at.steps(name)
    is_equal = equal(at.end_of(name), at.expected) and set(steps) == set(range(1, 2 * EPOCHS + 1))
    starts = len(list((at.folder / name).glob("*/vis_data")))
    return Survived(fault, state, starts, len(steps) - len(set(steps)), is_equal, seconds)


def equals_processes_of_torch(at: Cluster) -> bool:
    """Whether two tasks of srun train as two processes of ``tools/dist_train.sh`` do."""
    at.call(
        *("bash", ROOT / "tools" / "slurm_train.sh", "high", "job", at.config),
        *("--work-dir", "tasks", *_QUICKLY),
        CPU_TASKS="2",
        CPUS_PER_TASK="1",
    )
    return equal(at.end_of("tasks"), at.expected)


def main(arguments: Sequence[str] | None = None) -> int:
    """Bring all faults, and write the table."""
    parser = Parser(description=__doc__)
    out = Path("work_dirs/faults")
    parser.add_argument("--out", type=Path, default=out, help="folder of slurm.md")
    args = parser.parse_args(arguments)
    reason = slurm_cluster.missing()
    if reason:
        print(f"slurm: not run, {reason}")
        return 0
    begin, found = time.monotonic(), []
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory() as runs,
        slurm_cluster.cluster(Path(folder)) as environment,
    ):
        at = Cluster(Path(runs), environment)
        is_same = equals_processes_of_torch(at)
        print(f"slurm: two tasks, no fault: bit-equal {is_same}", flush=True)
        for fault in FAULTS:
            found.append(survive(at, fault))
            print(f"slurm: {', '.join(map(str, found[-1]))}", flush=True)
    rows = [
        [*map(str, each[:4]), "yes" if each.is_equal else "no", f"{each.seconds:.0f}"]
        for each in found
    ]
    about = describe_run("python -m tools.dev.faults.slurm", (time.monotonic() - begin) / 60)
    same = "bit-equal to" if is_same else "NOT EQUAL to"
    text = (
        f"{about} Without a fault, two tasks of srun ended {same} two processes of "
        f"`tools/dist_train.sh`.\n\n{markdown_table(_HEADS, rows, num_left=2)}\n"
    )
    args.out.mkdir(parents=True, exist_ok=True)
    write_whole(args.out / "slurm.md", text)
    print(f"written: {args.out / 'slurm.md'}")
    return int(not (is_same and all(each.is_equal for each in found)))


if __name__ == "__main__":
    sys.exit(main())
