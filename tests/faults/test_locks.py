import os
import subprocess
import sys

import pytest
from helpers.engine.toy_run import write_config
from helpers.package.checkout import ROOT

from mmssprl.cli import main
from mmssprl.engine.launch import launch, prepare_train_config
from mmssprl.errors import UserError
from mmssprl.system.locks import hold_output, hold_work_dir
from mmssprl.system.outputs import sweep_parts, whole_file

pytestmark = pytest.mark.fault

HOLDER = """
import os, time
from mmssprl.system.locks import hold_output, hold_work_dir
with hold_work_dir("run"), hold_output("out.npz"), hold_output("out.csv"):
    print(os.getpid(), flush=True)
    time.sleep(60)
"""


def test_the_second_is_refused_until_the_first_is_killed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as holder:
        assert int(holder.stdout.readline()) == holder.pid
        with pytest.raises(UserError, match="one process at a time must write run, but another"):
            launch(prepare_train_config("toy.py", work_dir="run"), "train")
        for line in (  # every command that writes over time
            "compare --work-dir run",
            "benchmark random --size scenes --work-dir run",
            "demo --work-dir run",
            "embed random images out.npz",
            "probe random images --out out.csv",
        ):
            assert main(line.split()) == 2, line
            printed = capsys.readouterr().err
            assert "one process at a time must write" in printed
            assert printed.count("\n") == 1
        assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]
        holder.kill()
    launch(prepare_train_config("toy.py", work_dir="run"), "train")
    assert (tmp_path / "run/epoch_1.pth").exists()
    assert not (tmp_path / "run/.lock").exists()


def test_the_lock_is_deleted_afterwards_and_a_user_s_file_stays(tmp_path):
    (tmp_path / ".out.csv.lock").write_text("mine")
    with hold_work_dir(tmp_path / "run"), hold_output(tmp_path / "out.csv"):
        pass
    assert [path.name for path in tmp_path.rglob("*")] == [".out.csv.lock", "run"]
    assert (tmp_path / ".out.csv.lock").read_text() == "mine"


def test_leftovers_of_ended_processes_are_deleted(tmp_path):
    process = subprocess.Popen(["true"])
    process.wait()
    dead = f"epoch_1.pth.{process.pid}.part"
    for name in (dead, f"a.part.{os.getppid()}.part", "my.part"):
        (tmp_path / name).touch()
    with whole_file(tmp_path / "mine.pth"):
        assert [path.name for path in sweep_parts(tmp_path)] == [dead]
    kept = {"mine.pth", "my.part", f"a.part.{os.getppid()}.part"}
    assert {path.name for path in tmp_path.iterdir()} == kept
