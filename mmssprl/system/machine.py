"""What a measurement ran on, and how much memory it took."""

import sys

import torch

from ..console.wording import counted
from .environment import processor, usable_cores


def describe_machine(device: str) -> str:
    """Return processor, cores, torch and, if there is one, the accelerator, in one line."""
    words = [f"{processor()}, {counted(usable_cores(), 'core')}", f"torch {torch.__version__}"]
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


def peak_resident_mib() -> int:
    """The highest resident size that this process has had so far, in MiB."""
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 2**20
