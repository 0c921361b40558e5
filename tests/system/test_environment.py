import pytest
import torch

from mmssprl.system import environment
from mmssprl.system.environment import (
    default_threads,
    torch_threads,
    usable_cores,
)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Eight cores by affinity; returns a function that puts this process into control groups."""
    monkeypatch.setattr(environment.os, "sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr(environment, "_CGROUPS", tmp_path)
    monkeypatch.setattr(environment, "_OWN_CGROUPS", tmp_path / "cgroup")

    def join(own, files):
        (tmp_path / "cgroup").write_text(own)
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(f"{text}\n")

    return join


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        ({"a/b/cpu.max": "max 100000", "cpu.max": "nonsense"}, 8),
        ({"a/b/cpu.max": "300000 100000"}, 3),
        ({"a/b/cpu.max": "120000 50000"}, 3),  # 2.4
        ({"a/b/cpu.max": "10000 100000"}, 1),
        ({"a/b/cpu.max": "max 100000", "a/cpu.max": "200000 100000"}, 2),
        ({"a/b/cpu.max": "600000 100000", "cpu.max": "500000 100000"}, 5),
        ({"cpu.max": "9900000 100000"}, 8),
        ({"a/b/c/cpu.max": "100000 100000"}, 8),  # another's
    ],
)
def test_a_quota_of_version_2_counts_its_own_and_those_above(machine, files, cores):
    assert usable_cores() == 8  # by affinity, without control groups
    machine("0::/a/b\n", files)
    assert usable_cores() == cores


@pytest.mark.parametrize(
    ("folder", "quota", "cores"),
    [("cpu/docker/x", "250000", 3), ("cpu", "150000", 2), ("cpu", "-1", 8), ("cpuset", "1", 8)],
)
def test_a_quota_of_version_1_counts(machine, folder, quota, cores):
    files = {f"{folder}/cpu.cfs_quota_us": quota, f"{folder}/cpu.cfs_period_us": "100000"}
    machine("9:name=systemd:/\n4:cpuset:/docker/x\n3:cpu,cpuacct:/docker/x\n0::/\n", files)
    assert usable_cores() == cores


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
