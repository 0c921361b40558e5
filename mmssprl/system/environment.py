"""What a run finds here: packages, machine, and the commit of this package."""

import math
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from .._dependencies import FAMILIES, distribution, installed_version
from ..version import __version__

_PACKAGES = (
    *("torch", "torchvision", "numpy", "numba", "pillow", "timm"),
    *("opencv-python", "opencv-python-headless"),
)
MOST_PROCESSES = 1024
"""That a loader may read with, and threads; more are a mistake, and would take hours to start."""
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
"""Those that change what a run computes with; no other variable is looked at."""
_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")


def describe_environment(device: str) -> dict[str, Any]:
    """Return versions, machine, device and threads, ready for JSON.

    Args:
        device: 'cpu', 'cuda', ...
    """
    import torch

    names = {distribution(spec) for family in FAMILIES.values() for spec in family.values()}
    versions = {name: installed_version(name) for name in (*_PACKAGES, *sorted(names))}
    return {
        "packages": {"mmssprl": __version__} | {k: v for k, v in versions.items() if v is not None},
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": processor(),
        "cores": usable_cores(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else device,
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }


def usable_cores() -> int:
    """Return the number of CPU cores that this process may use, at least 1.

    It is that of its affinity, or of its container's CPU quota if that is less. A part of a core
    counts as one: with a quota of 2.5 cores they are 3.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, min([cores, *map(math.ceil, _cpu_quotas())]))


def _cpu_quotas() -> Iterator[float]:
    """Yield the cores that each of this process's control groups may use, where one has a quota.

    It is in ``cpu.max`` (version 2 of control groups) or ``cpu.cfs_quota_us`` (version 1).
    """
    for folder, is_v2 in _control_groups("cpu"):
        names = ["cpu.max"] if is_v2 else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        quota, _, period = " ".join(_text_of(folder / name) for name in names).partition(" ")
        if quota.isdecimal() and period.isdecimal():  # not "max", -1 or none
            yield int(quota) / int(period)


@cache
def usable_memory() -> int:
    """Return the bytes of memory that the machine has, or that its container may use if less."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for folder, is_v2 in _control_groups("memory"):
        limit = _text_of(folder / ("memory.max" if is_v2 else "memory.limit_in_bytes"))
        limits += [int(limit)] if limit.isdecimal() else []
    return min(limits)


def _control_groups(controller: str) -> Iterator[tuple[Path, bool]]:
    """Yield the folders of this process's control groups, and whether they are of version 2.

    The groups are its own and all above them. In a container the path can be that on the host:
    then its own group is the topmost one here.
    """
    for line in _text_of(_OWN_CGROUPS).splitlines():  # empty if this is not Linux
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = _CGROUPS / controller if controllers else _CGROUPS
        group = top / path.strip("/")
        for folder in [group, *group.parents][: len(group.parts) - len(top.parts) + 1]:
            yield folder, not controllers


def _text_of(file: Path) -> str:
    """Return what a file of the system says, nothing if it is not there."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def default_threads() -> int:
    """Return the threads that torch computes with, at most one for each of ``usable_cores``.

    Torch knows affinity but no quota. A number that the user has set by OMP_NUM_THREADS stays.
    """
    import torch

    threads = torch.get_num_threads()
    return threads if "OMP_NUM_THREADS" in os.environ else min(threads, usable_cores())


@contextmanager
def torch_threads(number: int | None) -> Iterator[None]:
    """Let torch compute with so many threads inside; None is ``default_threads``."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number or default_threads())
    try:
        yield
    finally:
        torch.set_num_threads(before)


def processor() -> str:
    """Return the name of the CPU."""
    return cpu_info().get("model name") or platform.processor() or platform.machine()


def cpu_info() -> dict[str, str]:
    """Return the first processor of /proc/cpuinfo; empty where there is none."""
    info = Path("/proc/cpuinfo")
    if not info.is_file():
        return {}
    lines = info.read_text().split("\n\n")[0].splitlines()
    return {name.strip(): value.strip() for name, _, value in (li.partition(":") for li in lines)}


def source_commit(*, excluded: str | None = None) -> str:
    """Return the commit of the checkout that this package is in, marked if its files differ.

    Args:
        excluded: Path below the checkout's root whose changes do not count.
    """
    folder = Path(__file__).parent
    # ":(exclude,top)" of nothing would exclude everything.
    pathspec = [":/", f":(exclude,top){excluded}"] if excluded else [":/"]

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        commit = git("rev-parse", "--short", "HEAD")
        changed = git("status", "--porcelain", "--", *pathspec)
    except (OSError, subprocess.CalledProcessError):
        return "unknown (no git checkout)"
    return f"{commit} with uncommitted changes" if changed else commit
