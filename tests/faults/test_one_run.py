"""Two runs in one work dir: the second is refused while the first lives, and not longer."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from poisoned_runs import train_toy
from toy_run import write_config

from mmssprl.engine.launch import prepare_train_config, run
from mmssprl.engine.one_run import hold_work_dir
from mmssprl.errors import UserError
from mmssprl.outputs import sweep_parts, whole_file
from tools.faults.states import BadGradient

pytestmark = pytest.mark.fault
ROOT = Path(__file__).resolve().parents[2]

HOLDER = """
import os, sys, time
from mmssprl.engine.one_run import hold_work_dir
lock = hold_work_dir("run")
if os.fork() == 0:  # as a loader process does
    time.sleep(60)
print(os.getpid(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path, monkeypatch):
    """Another process that holds the work dir ``run`` of the current folder, with a child."""
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert int(process.stdout.readline()) == process.pid
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_the_second_is_refused_until_the_first_is_killed(holder, tmp_path):
    message = rf"but process {holder.pid} on \S+, since 20.* trains in run; wait for its end"
    with pytest.raises(UserError, match=message):
        run(prepare_train_config("toy.py", work_dir="run"), "train")
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]
    os.kill(holder.pid, signal.SIGKILL)  # its child lives on, as a loader process can
    holder.wait()
    run(prepare_train_config("toy.py", work_dir="run"), "train")
    assert (tmp_path / "run/epoch_1.pth").exists()


def test_a_run_that_fails_lets_go_of_it(tmp_path):
    def hold():
        hold_work_dir(tmp_path / "run")

    with pytest.raises(UserError) as caught:  # whose traceback would keep the file open
        train_toy(tmp_path, BadGradient(4))
    another = multiprocessing.get_context("fork").Process(target=hold)
    another.start()
    another.join()
    assert another.exitcode == 0, caught


def test_a_file_system_without_locks(tmp_path, monkeypatch, capfd):
    from mmssprl.engine import one_run

    def lockf(*args):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(one_run.fcntl, "lockf", lockf)
    told = []
    monkeypatch.setattr(one_run, "print_log", lambda text, **options: told.append(text))
    one_run.hold_work_dir(tmp_path).close()
    assert told[0].endswith("has no locks (Operation not supported): start no second run there.")


class TestLeftovers:
    @pytest.fixture
    def dead(self):
        """The number of a process that is gone."""
        process = subprocess.Popen(["true"])
        process.wait()
        return process.pid

    def test_of_processes_that_are_gone_are_swept(self, tmp_path, dead):
        for name in (f"epoch_1.pth.{dead}.part", f"a.part.{os.getppid()}.part", "my.part"):
            (tmp_path / name).touch()
        with whole_file(tmp_path / "mine.pth"):
            assert [path.name for path in sweep_parts(tmp_path)] == [f"epoch_1.pth.{dead}.part"]
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
            ["mine.pth", "my.part", f"a.part.{os.getppid()}.part"]
        )

    def test_of_another_machine_that_still_writes_stay(self, tmp_path, dead):
        """Its process number means nothing here, but its lock does."""
        part = tmp_path / f"epoch_1.pth.{dead}.part"
        code = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX)"
        code += "; print(flush=True); time.sleep(60)"
        command = [sys.executable, "-c", code, str(part)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
            other.stdout.readline()
            assert sweep_parts(tmp_path) == []
            other.kill()
        assert sweep_parts(tmp_path) == [part]

    def test_a_training_sweeps_them(self, work, dead):
        (work / f"run/epoch_2.pth.{dead}.part").touch()
        shutil.copy("toy.py", "own.py")
        run(prepare_train_config("own.py", work_dir="run", resume="auto"), "train")
        assert not list((work / "run").glob("*.part"))
