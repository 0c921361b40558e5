import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.engine.toy_run import write_config

from mmssprl.cli import main
from mmssprl.engine.launch import prepare_train_config, run
from mmssprl.errors import UserError
from mmssprl.system.one_run import hold_output, hold_work_dir
from mmssprl.system.outputs import sweep_parts, whole_file

pytestmark = pytest.mark.fault
ROOT = Path(__file__).resolve().parents[2]

HOLDER = """
import os, time
from mmssprl.system.one_run import hold_output, hold_work_dir
with hold_work_dir("run"), hold_output("out.npz"), hold_output("out.csv"):
    print(os.getpid(), flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path, monkeypatch):
    """Another process that holds the work dir ``run`` in the current folder."""
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert int(process.stdout.readline()) == process.pid
    yield process
    process.kill()
    process.wait()


def test_the_second_is_refused_until_the_first_is_killed(holder, tmp_path):
    with pytest.raises(UserError, match="one process at a time must write run, but another"):
        run(prepare_train_config("toy.py", work_dir="run"), "train")
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]
    holder.kill()
    holder.wait()
    run(prepare_train_config("toy.py", work_dir="run"), "train")
    assert (tmp_path / "run/epoch_1.pth").exists()
    assert not (tmp_path / "run/.lock").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "--work-dir", "run"],
        ["benchmark", "random", "--size", "scenes", "--work-dir", "run"],
        ["demo", "--work-dir", "run"],
        ["embed", "random", "images", "out.npz"],
        ["probe", "random", "images", "--out", "out.csv"],
    ],
    ids=" ".join,
)
def test_every_command_that_writes_over_time_is_refused(words, holder, capsys):
    assert main(words) == 2
    printed = capsys.readouterr().err
    assert "one process at a time must write" in printed
    assert printed.count("\n") == 1


def test_the_lock_is_deleted_afterwards_and_a_user_s_file_stays(tmp_path):
    (tmp_path / ".out.csv.lock").write_text("mine")
    with hold_work_dir(tmp_path / "run"), hold_output(tmp_path / "out.csv"):
        assert (tmp_path / "run/.lock").exists()
    assert [path.name for path in tmp_path.rglob("*")] == [".out.csv.lock", "run"]
    assert (tmp_path / ".out.csv.lock").read_text() == "mine"


class TestLeftovers:
    @pytest.fixture
    def dead(self):
        """The number of a process that has ended."""
        process = subprocess.Popen(["true"])
        process.wait()
        return process.pid

    def test_those_of_ended_processes_are_deleted(self, tmp_path, dead):
        for name in (f"epoch_1.pth.{dead}.part", f"a.part.{os.getppid()}.part", "my.part"):
            (tmp_path / name).touch()
        with whole_file(tmp_path / "mine.pth"):
            assert [path.name for path in sweep_parts(tmp_path)] == [f"epoch_1.pth.{dead}.part"]
        kept = {"mine.pth", "my.part", f"a.part.{os.getppid()}.part"}
        assert {path.name for path in tmp_path.iterdir()} == kept

    def test_a_training_deletes_them(self, work, dead):
        (work / f"run/epoch_2.pth.{dead}.part").touch()
        shutil.copy("toy.py", "own.py")
        run(prepare_train_config("own.py", work_dir="run", resume="auto"), "train")
        assert not list((work / "run").glob("*.part"))
