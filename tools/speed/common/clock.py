"""What a benchmark measures, how two sides are timed against each other, and on which machine."""

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Literal

import cv2
import PIL
import torch
import torchvision
from PIL import features

_RESULTS = "tools/benchmarks/results"


@dataclass(frozen=True)
class Row:
    """One measured number, and what it is judged by.

    Args:
        id: The gate, such as ``"C1"``, or a short name where there is none. Unique in a report.
        what: What the number is, one line.
        value: The number; NaN meets no gate.
        unit: Of ``value``; ``"x"`` for a ratio.
        gate: What must be reached; None for a row that only informs.
        stretch: What would be excellent.
        better: Whether a ``higher`` or a ``lower`` value is better; equal to the gate passes.
        spread: Lower and upper quartile over the rounds, where there were rounds.
        note: What a reader must know to judge the number.

    Raises:
        ValueError: ``better`` is another word, or a stretch that is easier than its gate.
    """

    id: str
    what: str
    value: float
    unit: str
    gate: float | None = None
    stretch: float | None = None
    better: Literal["higher", "lower"] = "higher"
    spread: tuple[float, float] | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if self.better not in ("higher", "lower"):
            raise ValueError(
                f"{self.id}: better must be 'higher' or 'lower', but got {self.better!r}."
            )
        if self.stretch is not None and (
            self.gate is None or not self._reaches(self.stretch, self.gate)
        ):
            raise ValueError(
                f"{self.id}: stretch must be at least as hard as gate, but got "
                f"gate={self.gate}, stretch={self.stretch} where {self.better} is better."
            )

    @property
    def passed(self) -> bool | None:
        """Whether the gate is met; None without a gate."""
        return None if self.gate is None else self._reaches(self.value, self.gate)

    @property
    def reached_stretch(self) -> bool | None:
        """Whether the stretch is met; None without one."""
        return None if self.stretch is None else self._reaches(self.value, self.stretch)

    def _reaches(self, value: float, bound: float) -> bool:
        return value >= bound if self.better == "higher" else value <= bound


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch and OpenCV work with one thread, as they do in a loader's worker."""
    before = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])


def interleave(sides: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """Time all sides in turn: A B, B A, A B, ..., so that a slow minute meets all of them.

    Each side runs once before, untimed: compilers, caches and files are warm when the clock runs.

    Args:
        sides: Name -> the work, on one thread.
        rounds: Timed calls of each side.

    Returns:
        Name -> seconds of CPU time that this process took, one per round. Other processes make
        it wait, which does not count; their use of caches and memory still slows it down.

    Raises:
        ValueError: No rounds.
    """
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, but got {rounds}.")
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides)
    with one_thread():
        for work in sides.values():
            work()
        for _ in range(rounds):
            for name in order:
                start = time.process_time()
                sides[name]()
                seconds[name].append(time.process_time() - start)
            order.reverse()
    return seconds


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median and the lower and upper quartile of at least one number."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, low, high


def ratio(slow: Sequence[float], fast: Sequence[float]) -> tuple[float, float, float]:
    """Return how many times ``fast`` fits into ``slow``, compared round by round.

    Args:
        slow: Seconds of one side, from ``interleave``.
        fast: Seconds of the other side in the same rounds.

    Returns:
        Median, lower and upper quartile of the ratios of the rounds.

    Raises:
        ValueError: Sides of different lengths.
    """
    return spread([a / b for a, b in zip(slow, fast, strict=True)])


def num_cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine() -> dict[str, str]:
    """Describe what the numbers were measured on; no names of hosts, users or folders."""
    info = _cpu_info()
    vectors = [flag for flag in info.get("flags", "").split() if flag.startswith(("avx", "fma"))]
    pillow = "pillow-simd" if ".post" in PIL.__version__ else "pillow"
    versions = [
        f"{name} {metadata.version(name)}" for name in ("numpy", "numba") if _is_installed(name)
    ]
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "cpu": f"{info.get('model name') or platform.processor() or platform.machine()}"
        f" (family {info.get('cpu family', '?')}, model {info.get('model', '?')})",
        "cores": str(num_cores()),
        "load before": f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "?",
        "vector instructions": " ".join(vectors) or "unknown",
        "python": platform.python_version(),
        "torch": f"{torch.__version__} ({torch.backends.cpu.get_cpu_capability()})",
        "torchvision": torchvision.__version__,
        "pillow": f"{pillow} {PIL.__version__}, libjpeg {features.version('jpg')}"
        + (" (turbo)" if features.check_feature("libjpeg_turbo") else ""),
        "opencv": cv2.__version__,
        "others": ", ".join(versions),
    }


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _cpu_info() -> dict[str, str]:
    """Return the first processor of /proc/cpuinfo; empty where there is none."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return {}
    lines = [line.split(":", 1) for line in text.split("\n\n")[0].splitlines() if ":" in line]
    return {name.strip(): value.strip() for name, value in lines}


def _commit() -> str:
    """Return the commit of this checkout, marked if its files differ from it."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        commit = git("rev-parse", "--short", "HEAD")
        # Results of an earlier run are no change of what is measured.
        changed = git("status", "--porcelain", "--", ":/", f":(exclude,top){_RESULTS}")
    except (OSError, subprocess.CalledProcessError):
        return "unknown (no git checkout)"
    return f"{commit} with uncommitted changes" if changed else commit
