import json
import os
import shlex
import sys

import pytest
from helpers.tools.called_tools import TOOLS, call

FAKE = f"""#!{sys.executable}
import json, os, sys
if sys.argv[1] == "-c":
    exec(sys.argv[2])
    sys.exit()
env = {{n: os.environ.get(n) for n in ("MASTER_PORT", "MMSSPRL_REQUEUE", "MMSSPRL_COMMAND")}}
json.dump({{"name": os.path.basename(sys.argv[0]), "args": sys.argv[1:], **env}}, sys.stdout)
"""


def line_of(tmp_path, script, *words, **env):
    """Return what a script of tools/ starts: ``srun``, ``sbatch`` or the ``python`` of PYTHON."""
    for name in ("srun", "sbatch", "python"):
        (tmp_path / name).write_text(FAKE)
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = call("bash", TOOLS / script, *words, cwd=tmp_path, PATH=path, **env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_dist_test_line_on_one_node(tmp_path):
    words = ("a b.py", "a.pth", "3", "--work-dir", "w")
    line = line_of(tmp_path, "dist_test.sh", *words, PYTHON="python")["args"]
    assert 1024 < int(line.pop(5).removeprefix("--master_port=")) < 65536
    assert line == [
        *(str(TOOLS / "launch.py"), "--nnodes=1", "--node_rank=0", "--nproc_per_node=3"),
        *("--master_addr=127.0.0.1", str(TOOLS / "test.py"), "a b.py", "a.pth"),
        *("--work-dir", "w", "--launcher", "pytorch"),
    ]


@pytest.mark.parametrize(("env", "port"), [({}, "29500"), ({"PORT": "1234"}, "1234")])
def test_dist_train_line_on_two_nodes(tmp_path, env, port):
    env |= {"NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "10.0.0.1", "PYTHON": "python"}
    assert line_of(tmp_path, "dist_train.sh", "a.py", "8", **env)["args"][1:] == [
        *("--nnodes=2", "--node_rank=1", "--nproc_per_node=8", "--master_addr=10.0.0.1"),
        *(f"--master_port={port}", str(TOOLS / "train.py"), "a.py", "--launcher", "pytorch"),
    ]


def test_slurm_train_line(tmp_path):
    words = ("part", "job", "a b.py", "--cfg-options", "x=1", "y='c d'")
    env = {"GPUS": "16", "GPUS_PER_NODE": "4", "CPUS_PER_TASK": "7", "PORT": "23456"}
    env["SRUN_ARGS"] = "--time=1:00 --qos=low"
    line = line_of(tmp_path, "slurm_train.sh", *words, **env)
    assert line["args"] == [
        *("--partition=part", "--job-name=job"),
        *("--gres=gpu:4", "--ntasks=16", "--ntasks-per-node=4", "--cpus-per-task=7"),
        *("--kill-on-bad-exit=1", "--time=1:00", "--qos=low", sys.executable, "-u"),
        *(str(TOOLS / "train.py"), "a b.py", "--cfg-options", "x=1", "y='c d'"),
        *("--launcher", "slurm"),
    ]
    assert (line["name"], line["MASTER_PORT"]) == ("srun", "23456")
    assert line["MMSSPRL_REQUEUE"] is None


@pytest.mark.parametrize(("gpus", "per_node"), [("2", "2"), ("8", "8"), ("32", "8")])
def test_slurm_test_line_puts_at_most_8_gpus_on_a_node(tmp_path, gpus, per_node):
    line = line_of(tmp_path, "slurm_test.sh", "part", "job", "a.py", "a.pth", GPUS=gpus)
    tasks = [f"--gres=gpu:{per_node}", f"--ntasks={gpus}", f"--ntasks-per-node={per_node}"]
    assert line["args"][2:6] == [*tasks, "--cpus-per-task=5"]
    assert line["args"][-5:] == [str(TOOLS / "test.py"), "a.py", "a.pth", "--launcher", "slurm"]
    assert line["MASTER_PORT"] is None


BATCH = {"BATCH": "1", "CPU_TASKS": "2", "SAVE_BEFORE": "300", "SRUN_ARGS": "--time=1:00"}
TYPED = ("part", "job", "a b.py", "--amp")


@pytest.fixture(scope="module")
def batch_job(tmp_path_factory):
    """The line of a batch job."""
    return line_of(tmp_path_factory.mktemp("batch"), "slurm_train.sh", *TYPED, **BATCH)


def test_a_batch_job_saves_before_its_end(batch_job):
    assert (batch_job["name"], batch_job["MMSSPRL_REQUEUE"]) == ("sbatch", "1")
    assert batch_job["args"][:-2] == [
        *("--partition=part", "--job-name=job", "--ntasks=2", "--cpus-per-task=5"),
        *("--requeue", "--open-mode=append", "--signal=USR1@300", "--time=1:00"),
    ]


def test_a_batch_job_resumes(batch_job):
    assert batch_job["args"][-2] == "--wrap"
    assert shlex.split(batch_job["args"][-1])[2:] == [
        *("--cpus-per-task=5", "--kill-on-bad-exit=1", sys.executable, "-u"),
        *(str(TOOLS / "train.py"), "a b.py", "--amp", "--launcher", "slurm", "--resume"),
    ]


def test_a_batch_job_keeps_the_typed_command(batch_job):
    typed = shlex.split(batch_job["MMSSPRL_COMMAND"])
    assert typed[0] == "env"
    assert {f"{name}={value}" for name, value in BATCH.items()} <= set(typed)
    assert typed[-6:] == ["bash", str(TOOLS / "slurm_train.sh"), *TYPED]


def refused(tmp_path, line, **env):
    """Return what a script says about a line that it refuses."""
    script, *words = line.split()
    done = call("bash", TOOLS / script, *words, cwd=tmp_path, **{"BATCH": "1", **env})
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


@pytest.mark.parametrize("number", ["0", "two"])
def test_processes_must_be_a_number_above_0(number, tmp_path):
    message = refused(tmp_path, f"dist_train.sh a.py {number}")
    assert f"PROCESSES must be at least 1, but got '{number}'" in message


def test_a_second_node_needs_the_address_of_the_first(tmp_path):
    message = refused(tmp_path, "dist_train.sh a.py 8", NNODES="2", NODE_RANK="1")
    assert "NODE_RANK=1 needs MASTER_ADDR" in message


@pytest.mark.parametrize("option", ["--resume a.pth", "--resume=a.pth", "--overwrite --amp"])
def test_a_batch_job_resumes_by_itself(option, tmp_path):
    assert option[:8] in refused(tmp_path, f"slurm_train.sh part job a.py {option}")
