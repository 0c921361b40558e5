import errno
import itertools
import logging
import os
import random
import shutil
import signal
import time
import zipfile
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch
from helpers.saving.stopped_runs import assert_equal
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


def fork(function, *args, **options):
    process = get_context("fork").Process(target=function, args=args, kwargs=options)
    process.start()
    return process


def weights(folder, name):
    return torch.load(folder / "run" / name, weights_only=True)["state_dict"]


def is_killed(process, folder):
    """Wait for its end; every checkpoint is there as it was written, and torch.load reads it."""
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    for path in (folder / "run").glob("*.pth"):
        assert zipfile.ZipFile(path).testzip() is None
        torch.load(path, weights_only=True)
    return process.exitcode != 0


class TestKills:
    def test_at_every_operation_on_files(self, tmp_path):
        # Two checkpoints and two pointers: file, name, folder; and the deletion of the first.
        assert call_without_gpu(kill_at_every_operation, tmp_path) >= 4 * 3 + 1

    @pytest.mark.slow
    def test_at_any_moment(self, tmp_path):
        assert call_without_gpu(kill_at_random, tmp_path) >= 10


def kill_at_every_operation(folder):
    """Train two epochs and keep one checkpoint: pointer and files agree after each kill."""
    train_toy(folder, options=KEEP_1)
    expected = weights(folder, "epoch_2.pth")
    number = 0
    while True:
        shutil.rmtree(folder / "run")
        if not is_killed(fork(train_killed, folder, number), folder):
            return number
        if names(folder):
            saved_before = not (folder / "run/last_checkpoint").exists()
            assert saved_before or pointed(folder) in names(folder)
        train_toy(folder, options=KEEP_1, resume="auto")
        assert names(folder) == ["epoch_2.pth"]
        assert pointed(folder) == "epoch_2.pth"
        assert names(folder, "*.part") == []
        assert_equal(weights(folder, "epoch_2.pth"), expected, "weights")
        number += 1


def train_killed(folder, number):
    """Train, and die right before an operation on files, by its number."""
    done = itertools.count()

    def counted(operation):
        def call(*args, **options):
            if os.path.exists(args[0]) and next(done) == number:
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
    draw = random.Random(0)
    kills = 0
    while True:
        process = fork(train_toy, folder, epochs=30, resume="auto")
        if kills < 12:
            time.sleep(draw.uniform(0, longest))
            process.kill()
        if not is_killed(process, folder):
            ends = [weights(each, "epoch_30.pth") for each in (folder, folder / "whole")]
            assert_equal(*ends, "weights")
            return kills
        kills += 1


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
    def test_a_config_gets_our_parts_whatever_it_calls_them(self, tmp_path, prefix):
        found = set()
        hook = Hook()
        hook.before_train = lambda run: found.update(map(type, [*run.hooks, run.train_loop]))
        options = {
            "default_hooks.checkpoint": {"type": f"{prefix}CheckpointHook"},
            "train_cfg": {"type": f"{prefix}EpochBasedTrainLoop", "_delete_": True},
            "train_cfg.max_epochs": 1,
        }
        train_toy(tmp_path, hook, options=options)
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
    @pytest.mark.parametrize(
        ("place", "number"),
        [*itertools.product(("fsync", "log"), (errno.ENOSPC, errno.EDQUOT))]
        + [(file, errno.ENOSPC) for file in ("epoch_2.pth", "toy.py")],
    )
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
            fill_disk(monkeypatch, f"{place}.")

        named = {"fsync": "epoch_2.pth", "log": os.strerror(number)}.get(place, place)
        config = (work / "run/toy.py").read_text()  # `pretrain --resume` has no other
        with pytest.raises(OSError, match=named) as caught:
            resume_by(work)
        assert place != "toy.py" or (work / "run/toy.py").read_text() == config
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
