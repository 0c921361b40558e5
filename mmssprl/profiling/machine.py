"""What a measurement ran on, and how much memory it took."""

import torch

from ..console.wording import counted
from ..engine.log_processor import peak_resident_mib
from ..environment import processor, usable_cores


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
