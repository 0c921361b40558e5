import json
import os
import shlex
import sys
from pathlib import Path

import pytest
from helpers.tools.called_tools import TOOLS, call

FAKE_SLURM = f"""#!{sys.executable}
import json, os, sys
names = ("MASTER_PORT", "MMSSPRL_REQUEUE", "MMSSPRL_COMMAND")
env = {{name: os.environ.get(name) for name in names}}
json.dump({{"name": os.path.basename(sys.argv[0]), "args": sys.argv[1:], **env}}, sys.stdout)
"""


def slurm_line(tmp_path: Path, *command: str | Path, **env: str) -> dict:
    for name in ("srun", "sbatch"):
        (tmp_path / name).write_text(FAKE_SLURM)
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = call(*command, cwd=tmp_path, PATH=path, **env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_slurm_train_line(tmp_path):
    line = slurm_line(
        tmp_path,
        *("bash", TOOLS / "slurm_train.sh", "part", "job", "a b.py"),
        *("--cfg-options", "x=1", "y='c d'"),
        **{"GPUS": "16", "GPUS_PER_NODE": "4", "CPUS_PER_TASK": "7", "PORT": "23456"},
        SRUN_ARGS="--time=1:00 --qos=low",
    )
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
    script = TOOLS / "slurm_test.sh"
    line = slurm_line(tmp_path, "bash", script, "part", "job", "a.py", "a.pth", GPUS=gpus)
    assert line["args"][2:6] == [
        *(f"--gres=gpu:{per_node}", f"--ntasks={gpus}"),
        *(f"--ntasks-per-node={per_node}", "--cpus-per-task=5"),
    ]
    assert line["args"][-5:] == [str(TOOLS / "test.py"), "a.py", "a.pth", "--launcher", "slurm"]
    assert line["MASTER_PORT"] is None


def test_a_batch_job_saves_resumes_and_keeps_the_typed_command(tmp_path):
    script = TOOLS / "slurm_train.sh"
    settings = {"BATCH": "1", "CPU_TASKS": "2", "SAVE_BEFORE": "300", "SRUN_ARGS": "--time=1:00"}
    line = slurm_line(tmp_path, "bash", script, "part", "job", "a b.py", "--amp", **settings)
    assert (line["name"], line["MMSSPRL_REQUEUE"]) == ("sbatch", "1")
    assert line["args"][:-2] == [
        *("--partition=part", "--job-name=job", "--ntasks=2", "--cpus-per-task=5"),
        *("--requeue", "--open-mode=append", "--signal=USR1@300", "--time=1:00"),
    ]
    assert line["args"][-2] == "--wrap"
    assert shlex.split(line["args"][-1])[2:] == [
        *("--cpus-per-task=5", "--kill-on-bad-exit=1", sys.executable, "-u"),
        *(str(TOOLS / "train.py"), "a b.py", "--amp", "--launcher", "slurm", "--resume"),
    ]
    typed = shlex.split(line["MMSSPRL_COMMAND"])
    assert typed[0] == "env"
    assert {f"{name}={value}" for name, value in settings.items()} <= set(typed)
    assert typed[-6:] == ["bash", str(script), "part", "job", "a b.py", "--amp"]


@pytest.mark.parametrize("resume", [("--resume", "a.pth"), ("--resume=a.pth",)])
def test_a_batch_job_takes_no_checkpoint(tmp_path, resume):
    command = ("bash", TOOLS / "slurm_train.sh", "part", "job", "a.py", *resume)
    done = call(*command, cwd=tmp_path, BATCH="1")
    assert done.returncode == 2
    assert "--resume" in done.stderr
