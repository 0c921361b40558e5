"""How many cores and threads there are to compute with, and how much memory."""

import psutil
import pytest
import torch

from mmssprl.system import environment
from mmssprl.system.environment import default_threads, torch_threads, usable_cores, usable_memory


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": "nonsense"}, 8),
        ({"cpu.max": "120000 50000"}, 3),  # 2.4
        ({"cpu.max": "10000 100000"}, 1),
        ({"cpu.max": "9900000 100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "150000", "cpu/cpu.cfs_period_us": "100000"}, 2),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
    ],
)
def test_cores_are_those_of_the_affinity_or_of_the_quota(tmp_path, monkeypatch, files, cores):
    monkeypatch.setattr(environment.os, "sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr(environment, "_CGROUPS", tmp_path)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    assert usable_cores() == cores


@pytest.mark.parametrize(
    ("name", "text", "limit"),
    [
        ("memory.max", "max", None),
        ("memory.max", "1048576", 2**20),
        ("memory/memory.limit_in_bytes", "2097152", 2**21),
        ("memory/memory.limit_in_bytes", "9223372036854771712", None),
    ],
)
def test_memory_is_that_of_the_machine_or_of_its_container(
    tmp_path, monkeypatch, name, text, limit
):
    monkeypatch.setattr(environment, "_CGROUPS", tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(f"{text}\n")
    assert usable_memory.__wrapped__() == (limit or psutil.virtual_memory().total)


def test_threads_are_those_of_torch_within_the_cores(monkeypatch):
    monkeypatch.setattr(environment, "usable_cores", lambda: 2)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with torch_threads(3):
        assert (torch.get_num_threads(), default_threads()) == (3, 2)
        monkeypatch.setenv("OMP_NUM_THREADS", "3")
        assert default_threads() == 3
    assert torch.get_num_threads() == 1
    with pytest.raises(ZeroDivisionError), torch_threads(2):
        _ = 1 // 0
    assert torch.get_num_threads() == 1
