"""Loaders where /dev/shm is small or full, as in a container; on a private mount."""

import errno
import os
import signal
import subprocess
import sys
import time
from multiprocessing import synchronize
from pathlib import Path

import pytest
from helpers.datasets.labelled_folders import write_class_folders
from helpers.package.checkout import ROOT
from helpers.saving.stopped_runs import write_pretraining

from mmssprl.console.messages import message_for_user

pytestmark = pytest.mark.fault
FULL = (
    "shared memory (/dev/shm) is full; in a container, make room by docker run --shm-size=2g, or "
    "set num_workers=0 to read images without processes."
)
LOST = """
import torch
from torch.utils.data import DataLoader
from mmssprl.console.messages import message_for_user
from mmssprl.datasets import loader_processes
loader_processes._free_bytes = lambda: 1e12  # another program fills it later
loader = DataLoader(range(9), 3, num_workers=1, collate_fn=lambda _: [torch.zeros(100_000)])
loader_processes.prepare_loaders({"train_dataloader": loader}, print)
try:
    print(len(list(loader)))
except RuntimeError as error:
    print(message_for_user(error))
"""


def start_with(size: str, folder: Path, *command: str | Path) -> subprocess.Popen:
    """Start a command with a /dev/shm of this size; skip where this is not possible."""
    probe = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("a private /dev/shm needs root and `unshare`")
    mount = f'mount -t tmpfs -o size={size} tmpfs /dev/shm && exec "$@"'
    more = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        ["unshare", "-m", "sh", "-c", mount, "sh", *map(str, command)],
        cwd=folder,
        env=os.environ | more,
        stdout=(folder / "said.txt").open("w"),
        stderr=subprocess.STDOUT,
    )


def test_a_batch_without_room_ends_the_wait_for_it(tmp_path):
    process = start_with("300k", tmp_path, sys.executable, "-c", LOST)
    assert process.wait(timeout=100) == 0
    assert (tmp_path / "said.txt").read_text() == f"{FULL}\n"


def test_a_lock_without_room_is_no_full_disk(monkeypatch):
    def no_room(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(synchronize._multiprocessing, "SemLock", no_room)
    with pytest.raises(OSError, match="No space left") as caught:
        synchronize.Lock(ctx=None)
    assert message_for_user(caught.value) == FULL
    assert "the disk is full" in message_for_user(OSError(errno.ENOSPC, "No space left"))


def test_a_process_that_a_bus_error_ends_names_shared_memory():
    # torch.utils.data's words for a process that SIGBUS has ended
    text = (
        "DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that "
        "dataloader's workers are out of shared memory. Please try to raise your shared memory "
        "limit."
    )
    assert message_for_user(RuntimeError(text)) == FULL
    assert message_for_user(RuntimeError("out of resource: shared memory")) is None


@pytest.mark.slow
@pytest.mark.parametrize("size", ["16k", "300k"])
@pytest.mark.parametrize(
    "words",
    [("finetune", "random", "data", "--task", "classify"), ("pretrain", "data")],
    ids=["finetune", "pretrain"],
)
def test_a_command_trains_without_processes(tmp_path, size, words):
    write_class_folders(tmp_path / "data", per_class=30)
    options = ("--epochs", "2", "--image-px", "64", "--batch-size", "8", "--work-dir", "run")
    process = start_with(size, tmp_path, sys.executable, "-m", "mmssprl", *words, *options)
    said = tmp_path / "said.txt"
    assert process.wait(timeout=300) == 0, said.read_text()
    (line,) = (each for each in said.read_text().splitlines() if "/dev/shm" in each)
    assert "images are read without them" in line
    assert "--shm-size=1g" in line


@pytest.mark.slow
@pytest.mark.parametrize("size", ["16k", "300k"])
def test_it_saves_at_a_signal(tmp_path, size):
    config = write_pretraining(tmp_path)
    options = ("train_cfg.max_epochs=10000", "train_dataloader.num_workers=8")
    train = (sys.executable, ROOT / "tools" / "train.py", config, "--work-dir", "run")
    process = start_with(size, tmp_path, *train, "--cfg-options", *options)
    said = tmp_path / "said.txt"
    end = time.monotonic() + 200
    while "loss / ln K" not in said.read_text():
        assert time.monotonic() < end, said.read_text()
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 75
    assert "images are read without them" in said.read_text()
    assert "resume with" in said.read_text()
