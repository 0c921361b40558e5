"""What only a GPU can tell, behind one small class."""

import gc
from collections.abc import Callable
from typing import Any

import torch


class Meter:
    """Clock and memory of the current CUDA device; the tests have a made-up one."""

    def __init__(self) -> None:
        self.device = torch.device("cuda", torch.cuda.current_device())

    def mark(self) -> torch.cuda.Event:
        """Put a mark into the device's stream of work."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds_between(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        """Wait for two marks and return the device's time between them."""
        end.synchronize()
        return start.elapsed_time(end) * 1e-3

    def reset_peak(self) -> None:
        """Forget the highest amount of memory so far."""
        torch.cuda.reset_peak_memory_stats(self.device)

    def peak_bytes(self) -> int:
        """Return the highest amount of memory in tensors since the reset."""
        return torch.cuda.max_memory_allocated(self.device)

    def free(self) -> None:
        """Give back memory that nothing uses; cycles hold whole models."""
        gc.collect()
        torch.cuda.empty_cache()

    def forbid_waiting(self, forbidden: bool) -> None:
        """Make every wait of the host for the device an error, or allow them again."""
        torch.cuda.set_sync_debug_mode("error" if forbidden else "default")

    def seconds_per_call(self, work: Callable[[], object], repeats: int) -> float:
        """Time calls in a row on the device, without a wait in between."""
        start = self.mark()
        for _ in range(repeats):
            work()
        return self.seconds_between(start, self.mark()) / repeats


def describe_gpu() -> dict[str, Any]:
    """Describe the CUDA device for the report."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "gpu": f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB, "
        f"{properties.multi_processor_count} multiprocessors",
        "cuda": f"{torch.version.cuda}, cudnn {torch.backends.cudnn.version()}",
    }
