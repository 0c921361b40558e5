"""What a measurement ran on, and how much memory it took."""

import os
import platform
import subprocess
from pathlib import Path

import torch

from ..engine.log_processor import peak_resident_mib


def usable_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe_machine(device: str) -> str:
    """Return processor, cores, torch and, if there is one, the accelerator, in one line."""
    words = [f"{processor()}, {usable_cores()} core(s)", f"torch {torch.__version__}"]
    if device.startswith("cuda"):
        words.append(torch.cuda.get_device_name())
    return ", ".join(words)


def reset_peak_bytes(device: str) -> None:
    """Begin to measure the peak anew where the device can; a process's resident peak stays."""
    module = torch.get_device_module(device)
    if hasattr(module, "reset_peak_memory_stats"):
        module.reset_peak_memory_stats()


def peak_bytes(device: str) -> int:
    """Return the most memory that was allocated on the device, or resident on a CPU."""
    module = torch.get_device_module(device)
    if hasattr(module, "max_memory_allocated"):
        return module.max_memory_allocated()
    return peak_resident_mib() * 2**20


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
