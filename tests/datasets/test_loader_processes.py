import os
import random
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.dataset import pseudo_collate
from mmengine.structures import BaseDataElement, PixelData
from torch.utils.data import DataLoader, Dataset

from mmssprl.datasets.loader_processes import (
    explain_timeout,
    has_room_for_process,
    prepare_loaders,
)
from mmssprl.errors import UserRuntimeError

PAGE = 4096
# Two batches for each of two processes and one in use, each of three samples with two pages; three
# queues with three locks each, and an event with six.
NEEDED = (2 * 2 + 1) * 3 * 2 * PAGE + (3 * 3 + 6) * PAGE


class Samples(Dataset):
    """Samples with a tensor of one page and one byte more, the others are of one byte."""

    def __len__(self):
        return 20

    def __getitem__(self, index):
        random.random()
        np.random.rand()  # noqa: NPY002  as OpenMMLab's transforms do
        torch.rand(1)
        num_bytes = PAGE + 1 if index == 1 else 1
        return torch.zeros(num_bytes, dtype=torch.uint8)


class Asleep(Samples):
    def __getitem__(self, index):
        time.sleep(60)


class OfOpenMMLab(Dataset):
    """The tensor of two pages is inside of a data sample."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        labels = PixelData(sem_seg=torch.zeros(1, 2, PAGE, dtype=torch.uint8))
        return {"data_samples": BaseDataElement(gt_sem_seg=labels)}


def loader_of(dataset=None, **options):
    options = {"batch_size": 3, "num_workers": 2, "collate_fn": pseudo_collate, **options}
    return DataLoader(dataset or Samples(), **options)


@pytest.fixture
def free(monkeypatch):
    """Set the free bytes of shared memory."""

    def free(num_bytes):
        found = SimpleNamespace(f_bavail=num_bytes, f_frsize=1)
        monkeypatch.setattr(os, "statvfs", lambda path: {"/dev/shm": found}[str(path)])

    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    return free


@pytest.mark.parametrize("dataset", [Samples(), OfOpenMMLab()], ids=["tensors", "data samples"])
def test_processes_are_used_if_their_batches_just_fit(free, dataset):
    for num_bytes, num_workers in ((NEEDED, 2), (NEEDED - 1, 0)):
        free(num_bytes)
        loader = loader_of(dataset)
        prepare_loaders({"train_dataloader": loader}, log=str)
        assert loader.num_workers == num_workers


def test_the_memory_is_shared_by_the_loaders_of_all_ranks(free, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    for num_bytes, num_workers in ((6 * NEEDED, 2), (6 * NEEDED - 1, 0)):
        free(num_bytes)
        loaders = {"train_dataloader": loader_of(), "val_dataloader": loader_of()}
        prepare_loaders(loaders, log=str)
        assert [each.num_workers for each in loaders.values()] == [num_workers] * 2


@pytest.fixture
def cramped(free):
    """A loader without room for its processes, and the lines about it."""
    lines = []
    free(20_000)
    loader = loader_of(persistent_workers=True, timeout=5)
    prepare_loaders({"train_dataloader": loader}, lines.append)
    return loader, lines


def test_too_little_memory_is_one_line_with_its_remedy(cramped):
    assert cramped[1] == [
        "/dev/shm has 20 kB free, but loader processes (num_workers=2) need 184 kB: images are "
        "read without them, which is slower. In a container, docker run --shm-size=1g makes room."
    ]


def test_batches_come_without_processes_where_memory_is_short(cramped):
    assert len(list(cramped[0])) == 7


def test_a_loader_without_processes_needs_no_shared_memory(free):
    free(0)
    loader = loader_of(num_workers=0)
    loader.timeout = 5  # a value of the config
    prepare_loaders({"val_dataloader": loader}, pytest.fail)
    assert not next(iter(loader))[0].is_shared()


def test_a_timeout_is_set_unless_there_is_one(free):
    free(10**9)
    loaders = {"usual": loader_of(), "own": loader_of(timeout=7)}
    prepare_loaders(loaders, log=str)
    assert (loaders["usual"].timeout, loaders["own"].timeout) == (300, 7)


def test_measuring_draws_nothing_from_the_generators(free):
    free(10**9)

    def drawn():
        random.seed(1)
        np.random.seed(1)  # noqa: NPY002
        torch.manual_seed(1)
        yield
        yield random.random(), np.random.rand(), torch.rand(1).item()  # noqa: NPY002

    draws = drawn(), drawn()
    expected = [*draws[0]][1]
    next(draws[1])
    prepare_loaders({"train_dataloader": loader_of()}, log=str)
    assert next(draws[1]) == expected


def test_a_process_that_gives_no_batch_ends_in_one_line():
    loader = loader_of(Asleep(), timeout=1)
    message = (
        "^the processes of val_dataloader gave no batch for 1 s; resume if the command was "
        "suspended, else check the disk of the images, the memory and /dev/shm, "
        "or read without processes, num_workers=0.$"
    )
    with pytest.raises(UserRuntimeError, match=message), explain_timeout(lambda: "val_dataloader"):
        next(iter(loader))


def test_other_errors_of_a_loader_stay():
    with pytest.raises(RuntimeError, match="^other$"), explain_timeout(lambda: "x"):
        raise RuntimeError("other")


def test_a_process_needs_room_for_its_locks(free):
    for num_bytes, has_room in ((16 * PAGE - 1, False), (16 * PAGE, True)):
        free(num_bytes)
        assert has_room_for_process() is has_room
