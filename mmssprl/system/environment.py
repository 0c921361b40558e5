"""What a run finds here: packages, machine, memory, and the commit of this package."""

import ctypes
import os
import platform
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .._dependencies import FAMILIES, distribution, installed_version
from ..console.wording import counted
from ..version import __version__

_PACKAGES = (
    *("torch", "torchvision", "numpy", "numba", "pillow", "timm"),
    *("opencv-python", "opencv-python-headless"),
)
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
"""Variables that change what a run computes with; no other is looked at."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4  # of glibc's malloc.h
_KEEPING: list[str] = []
"""One entry for each block of ``freed_memory_kept`` that is open, for they may be nested."""


def describe_environment(device: str) -> dict[str, Any]:
    """Return versions, machine, device ('cpu', 'cuda', ...) and threads, ready for JSON."""
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
    from joblib import cpu_count

    return cpu_count()


def default_threads() -> int:
    """Return the threads of torch, at most one per usable core unless OMP_NUM_THREADS is set."""
    import torch

    threads = torch.get_num_threads()
    return threads if "OMP_NUM_THREADS" in os.environ else min(threads, usable_cores())


def training_threads() -> int:
    """Return the threads of a training on a CPU: all usable cores, or one on a busy machine.

    Beside other work the threads of a step wait for the slowest one.
    """
    is_busy = os.getloadavg()[0] > (os.cpu_count() or 1) and "OMP_NUM_THREADS" not in os.environ
    return 1 if is_busy else default_threads()


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


@contextmanager
def freed_memory_kept(device: str) -> Iterator[None]:
    """Let memory that is freed inside stay with this process, if it computes on a CPU.

    glibc's malloc gives large blocks back to the system at once, and takes them again page by page:
    a seventh of a training step, and more of a feature's. Afterwards it gives all of them back.
    """
    libc: Any = ctypes.CDLL(None) if sys.platform == "linux" and device == "cpu" else None
    if not hasattr(libc, "mallopt"):
        yield
        return
    _KEEPING.append(device)
    libc.mallopt(_M_MMAP_MAX, 0)
    libc.mallopt(_M_TRIM_THRESHOLD, -1)
    try:
        yield
    finally:
        _KEEPING.pop()
        if not _KEEPING:  # what malloc itself would have come to
            libc.mallopt(_M_MMAP_MAX, 2**16)
            libc.mallopt(_M_MMAP_THRESHOLD, 2**25)
            libc.mallopt(_M_TRIM_THRESHOLD, 2**26)
            libc.malloc_trim(0)


def processor() -> str:
    """Return the name of the CPU."""
    with suppress(OSError):
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
        if found:
            return found[1]
    return platform.processor() or platform.machine()


def describe_machine(device: str) -> str:
    """Return processor, cores, torch and, if there is one, the accelerator, in one line."""
    import torch

    words = [f"{processor()}, {counted(usable_cores(), 'core')}", f"torch {torch.__version__}"]
    if device.startswith("cuda"):
        words.append(torch.cuda.get_device_name())
    return ", ".join(words)


def reset_peak_bytes(device: str) -> None:
    """Begin to measure the peak again where the device can; a process's resident peak stays."""
    import torch

    module = torch.get_device_module(device)
    if hasattr(module, "reset_peak_memory_stats"):
        module.reset_peak_memory_stats()


def peak_bytes(device: str) -> int:
    """Return the most memory that was allocated on the device, or resident on a CPU."""
    import torch

    module = torch.get_device_module(device)
    if hasattr(module, "max_memory_allocated"):
        return module.max_memory_allocated()
    return peak_resident_mib() * 2**20


def peak_resident_mib() -> int:
    """Return the highest resident size that this process has had so far, in MiB."""
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 2**20


def source_commit() -> str:
    """Return the commit of the checkout that this package is in, marked if its files differ."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        commit = git("rev-parse", "--short", "HEAD")
        changed = git("status", "--porcelain", "--", ":/")
    except (OSError, subprocess.CalledProcessError):
        return "unknown (no git checkout)"
    return f"{commit} with uncommitted changes" if changed else commit
