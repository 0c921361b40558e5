import errno
import itertools
import logging
import os
import random
import shutil
import signal
import time
import zipfile
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch
from helpers.saving.toy_checkpoint import BEST, resume_by, train_toy
from helpers.system.full_disk import fill_disk
from helpers.system.no_gpu import call_without_gpu
from mmengine.fileio import get_file_backend
from mmengine.hooks import Hook

from mmssprl.console.messages import message_for_user
from mmssprl.saving.checkpoint_hooks import SafeCheckpointHook
from mmssprl.saving.loops import ResumableEpochLoop
from mmssprl.saving.safe_files import WholeFileBackend
from mmssprl.system.outputs import whole_file

pytestmark = [pytest.mark.fault, pytest.mark.fence]
KEEP_1 = {
    "default_hooks.checkpoint": {"type": "CheckpointHook", "max_keep_ckpts": 1, "interval": 1}
}


def names(folder, pattern="*.pth"):
    return sorted(path.name for path in (folder / "run").glob(pattern))


def pointed(folder):
    return Path((folder / "run/last_checkpoint").read_text()).name


def fork(function, log):
    """Run a function in a forked process, whose output is added to a file."""

    def run():
        with log.open("ab") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        function()

    process = get_context("fork").Process(target=run)
    process.start()
    return process


def is_whole(path):
    """Whether every byte of a checkpoint is as it was written, and plain torch.load reads it."""
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.testzip():
                return False
        torch.load(path, weights_only=True)
    except Exception:  # damaged files raise almost any class
        return False
    return True


class TestKills:
    def test_at_every_operation_on_files(self, tmp_path):
        # Two checkpoints and two pointers: file, name, folder; and the deletion of the first.
        assert call_without_gpu(kill_at_every_operation, tmp_path) >= 4 * 3 + 1

    @pytest.mark.slow
    def test_at_any_moment(self, tmp_path):
        assert call_without_gpu(kill_at_random, tmp_path) >= 10

    def test_a_torn_file_of_mmengine_s_own_backend_would_be_found(self, tmp_path):
        torch.save({"a": torch.ones(1000)}, tmp_path / "a.pth")
        assert is_whole(tmp_path / "a.pth")
        (tmp_path / "a.pth").write_bytes((tmp_path / "a.pth").read_bytes()[:-1])
        assert not is_whole(tmp_path / "a.pth")


def kill_at_every_operation(folder):
    """Train two epochs and keep one checkpoint: pointer and files agree after each kill."""
    train_toy(folder, options=KEEP_1)
    expected = torch.load(folder / "run/epoch_2.pth", weights_only=True)["state_dict"]
    number = 0
    while True:
        shutil.rmtree(folder / "run")
        process = fork(partial(train_killed, folder, number), folder / "log.txt")
        process.join()
        if process.exitcode == 0:
            return number
        assert process.exitcode == -signal.SIGKILL, (folder / "log.txt").read_text()
        assert all(is_whole(path) for path in (folder / "run").glob("*.pth"))
        if names(folder):
            saved_before = not (folder / "run/last_checkpoint").exists()
            assert saved_before or pointed(folder) in names(folder)
        train_toy(folder, options=KEEP_1, resume="auto")
        assert names(folder) == ["epoch_2.pth"]
        assert pointed(folder) == "epoch_2.pth"
        assert names(folder, "*.part") == []
        state = torch.load(folder / "run/epoch_2.pth", weights_only=True)["state_dict"]
        assert all(torch.equal(state[name], expected[name]) for name in expected)
        number += 1


def train_killed(folder, number):
    """Train, and die right before an operation on files, by its number."""
    done = itertools.count()

    def counted(operation):
        def call(*args, **options):
            if next(done) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return operation(*args, **options)

        return call

    for name in ("fsync", "replace", "rename", "unlink", "remove"):
        setattr(os, name, counted(getattr(os, name)))
    train_toy(folder, options=KEEP_1)


def kill_at_random(folder):
    """Kill a training of thirty epochs again and again until it is complete; count the kills."""
    (folder / "whole").mkdir()
    start = time.monotonic()
    train_toy(folder / "whole", epochs=30)
    longest = (time.monotonic() - start) / 8
    draw, kills = random.Random(0), 0
    while True:
        log = folder / "log.txt"
        process = fork(partial(train_toy, folder, epochs=30, resume="auto"), log)
        if kills < 12:
            time.sleep(draw.uniform(0, longest))
            process.kill()
        process.join()
        assert all(is_whole(path) for path in (folder / "run").glob("epoch_*.pth"))
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL, log.read_text()
        kills += 1
    ends = [
        torch.load(each / "run/epoch_30.pth", weights_only=True)["state_dict"]
        for each in (folder, folder / "whole")
    ]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[1])
    return kills


class TestOrder:
    def test_the_file_is_on_the_disk_before_its_name(self, tmp_path, monkeypatch):
        calls = []
        for name in ("fsync", "replace"):
            own = getattr(os, name)
            monkeypatch.setattr(
                os, name, lambda *args, own=own, name=name: calls.append(name) or own(*args)
            )
        get_file_backend(str(tmp_path)).put(b"data", tmp_path / "a" / "b.pth")
        assert calls == ["fsync", "replace", "fsync"]
        assert (tmp_path / "a/b.pth").read_bytes() == b"data"
        get_file_backend(str(tmp_path)).put_text("text", tmp_path / "b.txt")
        assert (tmp_path / "b.txt").read_text() == "text"
        calls.clear()
        with whole_file(tmp_path / "c", synced=False) as file:
            file.write("c")
        assert calls == ["replace"]

    @pytest.mark.parametrize("prefix", ["", "mmengine."])
    def test_whatever_a_config_calls_them_hook_and_loop_are_ours(self, tmp_path, prefix):
        class Kinds(Hook):
            def before_train(self, runner):
                found.update(map(type, [*runner.hooks, runner.train_loop]))

        found = set()
        options = {
            "default_hooks.checkpoint": {"type": f"{prefix}CheckpointHook"},
            "train_cfg": {"type": f"{prefix}EpochBasedTrainLoop", "_delete_": True},
            "train_cfg.max_epochs": 1,
        }
        train_toy(tmp_path, Kinds(), options=options)
        assert {SafeCheckpointHook, ResumableEpochLoop} <= found

    def test_the_best_one_is_deleted_after_the_better_one_is_there(self, tmp_path, monkeypatch):
        removed = []
        remove = WholeFileBackend.remove

        def note(backend, path):
            removed.append((Path(path).name, names(tmp_path)))
            remove(backend, path)

        monkeypatch.setattr(WholeFileBackend, "remove", note)
        train_toy(tmp_path, text=BEST)
        assert names(tmp_path) == ["best_total_epoch_2.pth", "epoch_1.pth", "epoch_2.pth"]
        ((name, there),) = removed
        assert name == "best_total_epoch_1.pth"
        assert "best_total_epoch_2.pth" in there


class TestFullDisk:
    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
    @pytest.mark.parametrize("place", ["write", "fsync", "log"])
    def test_what_was_saved_stays(self, work, monkeypatch, number, place):
        """Some file systems report a quota only at fsync."""

        def fsync(file, own=os.fsync):
            if ".pth." in os.readlink(f"/proc/self/fd/{file}"):
                raise OSError(number, os.strerror(number))
            own(file)

        def flush(handler, own=logging.StreamHandler.flush):
            if isinstance(handler, logging.FileHandler) and names(work) == ["epoch_1.pth"]:
                raise OSError(number, os.strerror(number))
            own(handler)

        if place == "fsync":
            monkeypatch.setattr(os, "fsync", fsync)
        elif place == "log":
            monkeypatch.setattr(logging.StreamHandler, "flush", flush)
        else:
            fill_disk(monkeypatch, "epoch_2.pth.", number)
        named = os.strerror(number) if place == "log" else r"epoch_2\.pth"
        with pytest.raises(OSError, match=named) as caught:
            resume_by(work)
        limit = "quota" if number == errno.EDQUOT else "disk is full"
        assert limit in message_for_user(caught.value)
        monkeypatch.undo()
        assert names(work) == ["epoch_1.pth"]
        assert names(work, "*.part") == []
        monkeypatch.chdir(work)
        resume_by(work)
        assert names(work) == ["epoch_1.pth", "epoch_2.pth"]

    def test_the_checkpoint_of_a_step_makes_room_for_one_that_is_left(self, work, monkeypatch):
        monkeypatch.setattr("mmssprl.system.outputs.free_bytes", lambda folder: 1)
        monkeypatch.setattr("mmssprl.saving.checkpoint_hooks.checkpoint_bytes", lambda runner: 1)
        with pytest.raises(OSError, match=r"run must have room .*max_keep_ckpts"):
            resume_by(work)
        (work / "run/step_1.pth").write_bytes((work / "run/epoch_1.pth").read_bytes())
        resume_by(work)
        assert "epoch_2.pth" in names(work)

    def test_the_config_of_the_run_stays(self, work, monkeypatch):
        """``pretrain --resume`` has no other."""
        before = (work / "run/toy.py").read_text()
        fill_disk(monkeypatch, "toy.py.")
        with pytest.raises(OSError, match=r"toy\.py"):
            resume_by(work)
        assert (work / "run/toy.py").read_text() == before
