import errno
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
from filelock import SoftFileLock, Timeout
from helpers.engine.toy_run import write_config
from helpers.package.checkout import ROOT

from mmssprl.cli import main
from mmssprl.engine.launch import launch, prepare_train_config
from mmssprl.errors import UserError
from mmssprl.system.locks import hold_output, hold_work_dir, is_unused, wait_for
from mmssprl.system.outputs import sweep_parts, whole_file

pytestmark = pytest.mark.fault

HOLDER = """
import os, time
from mmssprl.system.locks import hold_output, hold_work_dir
with hold_work_dir("run"), hold_output("out.npz"), hold_output("out.csv"):
    print(os.getpid(), flush=True)
    time.sleep(60)
"""


WRITING = (
    "compare --work-dir run",
    "benchmark random --size scenes --work-dir run",
    "demo --work-dir run",
    "embed random images out.npz",
    "probe random images --out out.csv",
)
"""Every command that writes over time."""


@contextmanager
def holding(folder):
    """Let another process hold the locks of a run and of two files in a folder; yield it."""
    write_config(folder)
    (folder / "images").mkdir(exist_ok=True)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert int(holder.stdout.readline()) == holder.pid
        yield holder
        holder.kill()


@pytest.fixture(scope="module")
def held_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("held")
    with holding(folder):
        yield folder


@pytest.fixture
def held(held_folder, monkeypatch):
    monkeypatch.chdir(held_folder)
    return held_folder


def test_the_second_training_is_refused(held):
    with pytest.raises(UserError, match="one process at a time must write run, but another"):
        launch(prepare_train_config("toy.py", work_dir="run"), "train")
    assert [path.name for path in (held / "run").iterdir()] == [".lock"]


def test_a_task_of_srun_without_a_launcher_is_refused(held, monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "1")
    with pytest.raises(UserError, match="one process at a time must write run, but another"):
        launch(prepare_train_config("toy.py", work_dir="run"), "train")


@pytest.mark.parametrize("line", WRITING)
def test_the_second_command_is_refused_in_one_line(held, capsys, line):
    assert main(line.split()) == 2
    printed = capsys.readouterr().err
    assert "one process at a time must write" in printed
    assert printed.count("\n") == 1
    assert [path.name for path in (held / "run").iterdir()] == [".lock"]


def test_a_killed_process_holds_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with holding(tmp_path) as holder:
        holder.kill()
    assert (tmp_path / "run/.lock").exists()
    launch(prepare_train_config("toy.py", work_dir="run"), "train")
    assert (tmp_path / "run/epoch_1.pth").exists()
    assert not (tmp_path / "run/.lock").exists()


@pytest.fixture(params=[errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def no_locks(request, monkeypatch):
    """A drive that knows no locks."""

    def refuse(*args):
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr("fcntl.flock", refuse)


def test_a_drive_without_locks_is_reported_once(tmp_path, no_locks, capsys):
    run = tmp_path / "run"
    for _ in range(2):  # the lock of a killed process stays
        with hold_work_dir(run), hold_output(tmp_path / "out.csv"):
            (run / ".lock").touch()
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" has no locks, so")[0] for line in lines] == [
        f"warning: the drive of {run}",
        f"warning: the drive of {tmp_path / 'out.csv'}",
    ]


def test_processes_wait_on_a_drive_without_locks(tmp_path, no_locks, capsys):
    marker = tmp_path / ".maps.marker.lock"
    with wait_for(tmp_path / "maps"):
        assert marker.exists()
        with pytest.raises(Timeout):
            SoftFileLock(marker).acquire(blocking=False)
    assert not marker.exists()
    assert is_unused(tmp_path)
    assert "wait for .maps.marker.lock" in capsys.readouterr().out


def test_a_new_disk_is_unused(tmp_path):
    (tmp_path / "lost+found").mkdir()
    (tmp_path / ".gitkeep").touch()
    assert is_unused(tmp_path)
    (tmp_path / "mine.txt").touch()
    assert not is_unused(tmp_path)


def test_a_lock_is_deleted_afterwards(tmp_path):
    with hold_work_dir(tmp_path / "run"), hold_output(tmp_path / "out.csv"):
        assert {path.name for path in tmp_path.rglob("*")} == {"run", ".lock", ".out.csv.lock"}
    assert [path.name for path in tmp_path.rglob("*")] == ["run"]


def test_a_user_s_file_in_the_place_of_a_lock_stays(tmp_path):
    (tmp_path / ".out.csv.lock").write_text("mine")
    with hold_output(tmp_path / "out.csv"):
        pass
    assert (tmp_path / ".out.csv.lock").read_text() == "mine"


def test_a_folder_with_only_locks_is_unused(tmp_path):
    (tmp_path / ".bad_images.txt.lock").touch()
    assert is_unused(tmp_path)
    (tmp_path / "poetry.lock").touch()
    assert not is_unused(tmp_path)


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
