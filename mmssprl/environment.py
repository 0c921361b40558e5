"""What a run finds here: packages, machine, and the commit of this package."""

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from . import __version__
from ._dependencies import FAMILIES, distribution, installed_version

_PACKAGES = (
    "torch",
    "torchvision",
    "numpy",
    "numba",
    "pillow",
    "opencv-python",
    "opencv-python-headless",
    "timm",
)
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
"""Those that change what a run computes with; no other variable is looked at."""


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
    """Return the number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
