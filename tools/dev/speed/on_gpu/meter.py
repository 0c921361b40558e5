"""What only a GPU can tell, behind one small class, and a limit of time."""

import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch


class Meter:
    """Clock, memory and alarm of the current CUDA device; the tests have a made-up one."""

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


class OutOfTimeError(BaseException):
    """A part took too long. No ``Exception``: compilers catch those and go on."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Stop what runs in here after some seconds, at the next line of Python.

    Raises:
        OutOfTimeError: The time is over.
    """

    def stop(number: int, frame: object) -> None:
        raise OutOfTimeError(f"stopped after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def describe_gpu() -> dict[str, Any]:
    """Describe the CUDA device for the report."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "gpu": f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB, "
        f"{properties.multi_processor_count} multiprocessors",
        "cuda": f"{torch.version.cuda}, cudnn {torch.backends.cudnn.version()}",
    }
