"""The environment of a run: packages, machine, memory, threads and commit."""

import ctypes
import gc
import os
import platform
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from subprocess import DEVNULL, CalledProcessError, check_output
from typing import Any

import torch
from joblib import cpu_count

from .._dependencies import FAMILIES, distribution, installed_version
from ..console.wording import counted
from ..errors import UserValueError
from ..version import __version__

_PACKAGES = (
    "torch",
    "torchvision",
    "numpy",
    "numba",
    "pillow",
    "timm",
    "opencv-python",
    "opencv-python-headless",
)
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
"""Environment variables that are recorded."""
CORES_VARIABLE = "MMSSPRL_CORES"
"""Environment variable of a run of an experiment with its share of the CPU cores."""
# Options of mallopt in glibc's malloc.h
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_MMAP_MAX = -4
_KEEPING: list[str] = []
"""One entry per open ``freed_memory_kept``, as these may be nested."""


def describe_environment(device: str) -> dict[str, Any]:
    """Return versions, machine, device ('cpu', 'cuda', ...) and threads, ready for JSON."""
    return {
        "packages": _installed_packages(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": processor(),
        "cores": usable_cores(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else device,
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }


def _installed_packages() -> dict[str, str]:
    """Return the versions of this package and of the installed packages that it uses."""
    specs = chain.from_iterable(family.values() for family in FAMILIES.values())
    names = {distribution(spec) for spec in specs}
    versions = {name: installed_version(name) for name in (*_PACKAGES, *sorted(names))}
    return {"mmssprl": __version__} | {k: v for k, v in versions.items() if v is not None}


def usable_cores() -> int:
    """Return the number of CPU cores that affinity and the container's quota leave, at least 1."""
    return cpu_count()


def cores_of_run() -> int:
    """Return the number of CPU cores for this process: its share in an experiment, or all."""
    return int(os.environ.get(CORES_VARIABLE) or usable_cores())


def default_threads() -> int:
    """Return the threads of torch, at most one per usable core unless OMP_NUM_THREADS is set."""
    threads = torch.get_num_threads()
    return threads if "OMP_NUM_THREADS" in os.environ else min(threads, usable_cores())


def training_threads() -> int:
    """Return the threads of a training on a CPU: all cores, or one if the machine is overloaded."""
    is_busy = os.getloadavg()[0] > (os.cpu_count() or 1) and "OMP_NUM_THREADS" not in os.environ
    return 1 if is_busy else default_threads()


@contextmanager
def torch_threads(number: int | None) -> Iterator[None]:
    """Set the threads of torch inside; None is ``default_threads``.

    Raises:
        ValueError: ``number`` is the num_threads of a config, and no whole number from 1 on.
    """
    if number is None:
        number = default_threads()
    if type(number) is not int or number < 1:
        raise UserValueError(
            "num_threads must be a whole number from 1 on, or None for one per core, but got "
            f"{number!r}; correct it in the config or by --cfg-options."
        )

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def freeze_imports() -> None:
    """Let garbage collections skip all objects so far, once per process.

    mmengine collects whenever it builds a data set, and would look at what all packages have made.
    """
    if not gc.get_freeze_count():
        gc.freeze()


@contextmanager
def freed_memory_kept(device: str) -> Iterator[None]:
    """Keep freed memory in this process while it computes on a CPU.

    glibc's malloc returns large blocks to the system and gets them back page by page. That takes a
    seventh of a training step, more of feature extraction. At the end all of it is returned.
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
        if not _KEEPING:  # what malloc adapts to by default
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
    """Return processor, cores, torch and accelerator in one line."""
    text = f"{processor()}, {counted(usable_cores(), 'core')}, torch {torch.__version__}"
    return f"{text}, {torch.cuda.get_device_name()}" if device.startswith("cuda") else text


def reset_peak_bytes(device: str) -> None:
    """Reset the peak of ``peak_bytes``, except on a CPU."""
    module = torch.get_device_module(device)
    if hasattr(module, "reset_peak_memory_stats"):
        module.reset_peak_memory_stats()


def peak_bytes(device: str) -> int:
    """Return the peak of allocated memory of a device, of resident memory on a CPU."""
    module = torch.get_device_module(device)
    if hasattr(module, "max_memory_allocated"):
        return module.max_memory_allocated()
    return peak_resident_mib() * 2**20


def peak_resident_mib() -> int:
    """Return the peak resident size of this process in MiB."""
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 2**20


def source_commit() -> str:
    """Return the commit of this package's checkout, and whether files are changed."""
    unknown = "unknown (no git checkout)"
    try:
        # An installed package may be inside the repository of a user.
        if _git("rev-parse", "--show-prefix"):
            return unknown
        commit = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain")
    except (OSError, CalledProcessError):
        return unknown
    return commit + (" with uncommitted changes" if changed else "")


def _git(*words: str) -> str:
    """Return what git says in the folder of this package."""
    git = ["git", "-C", str(Path(__file__).resolve().parents[2])]
    return check_output([*git, *words], text=True, errors="replace", stderr=DEVNULL).strip()


def choose_device(device: str | torch.device) -> torch.device:
    """Return an existing device; 'auto' is a GPU if there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:
        gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
        raise UserValueError(
            f"device must be one of 'auto', {', '.join(['cpu', *gpus])}, but got {device!r}."
        ) from error
